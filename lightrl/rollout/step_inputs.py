"""What a recorded decode step is told, in tensors that stay where they are."""

from __future__ import annotations

import torch
from torch import Tensor


class StepInputs:
    """Tokens, their positions, where their keys are written, and what they may read; some rows and places are unused."""

    def __init__(self, like: Tensor, rows: int, places: int) -> None:
        """
        Args:
            like: int64, on the device.
            rows: of the buffers of keys and values.
            places: of these buffers, for the positions of each row.
        """
        self.tokens, self.positions, self.place = like.new_zeros(rows), like.new_zeros(rows), like.new_zeros(1)
        self.places = torch.arange(places, device=like.device)
        self._read = like.new_ones(rows, places, dtype=torch.bool)

    def tell(self, tokens: Tensor, read: int, mask: Tensor | None, positions: Tensor | None) -> None:
        """Take the arguments of a step.

        Args:
            tokens: `[n]`.
            read: places that hold earlier tokens, the same for all rows.
            mask: `[n, read + 1]` bool, as in `DecodeStep.logits`.
            positions: `[n]`, or None: behind all that was read.
        """
        n = len(tokens)
        self.tokens[:n] = tokens
        self.place.fill_(read)
        self.positions.fill_(read)
        # unused rows read all that is there, so that their numbers stay finite
        self._read.fill_(True)
        if positions is not None:
            self.positions[:n] = positions
        if mask is not None:
            self._read[:n, : read + 1] = mask

    def open(self) -> Tensor:
        """`[rows, places]` bool, True where a row reads."""
        return self._read & (self.places <= self.place)
