"""The one place where model outputs are shifted: the hidden state at t - 1 predicts token t."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from lightrl.rows import onto


@dataclass(frozen=True)
class Selected:
    """M selected tokens of n rows of L tokens, in row-major order."""

    shape: tuple[int, int]
    """n and L."""
    places: Tensor
    """`[M]` int64, on the CPU: row L + position of each."""
    on_device: Tensor
    """The same, where the outputs are."""

    @classmethod
    def of(cls, mask: Tensor, device: torch.device) -> Self:
        """Those that a mask selects.

        Args:
            mask: `[n, L]` bool, on the CPU, so that no device is waited for.
            device: where the outputs are.

        Raises:
            ValueError: position 0 of a row is selected.
        """
        if mask[:, :1].any():
            raise ValueError("the first token of a row has no predictor: a prompt needs at least one token")
        places = mask.flatten().nonzero()[:, 0]
        return cls((mask.shape[0], mask.shape[1]), places, onto(places, device))

    def lengths(self) -> list[int]:
        """For each row the tokens in front of its last selected one: all that its outputs depend on."""
        rows, width = self.shape
        found = [0] * rows
        for place in self.places.tolist():
            found[place // width] = place % width
        return found

    def tokens(self, input_ids: Tensor) -> Tensor:
        """`[M]` of `[n, L]` ids on the CPU: the selected tokens, where the outputs are."""
        return onto(input_ids.flatten()[self.places], self.on_device.device)

    def predictors(self, hidden: Tensor) -> Tensor:
        """`[M, H]` of `[n, L, H]` last hidden states, of which entry t has seen tokens 0..t: those that predict the selected tokens."""
        return hidden.flatten(0, 1).index_select(0, self.on_device - 1)

    def at_tokens(self, chosen: Tensor) -> Tensor:
        """`[n, L]` with the `[M]` chosen values at the selected tokens and 0 elsewhere; the inverse of selecting."""
        rows, width = self.shape
        return chosen.new_zeros(rows * width).index_copy(0, self.on_device, chosen).view(rows, width)


def on_host(input_ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """`[n, L]` ids and mask on the CPU: as they are, or in one copy."""
    if input_ids.device == mask.device == torch.device("cpu"):
        return input_ids, mask
    both = torch.stack((input_ids, mask.to(input_ids))).cpu()
    return both[0], both[1].bool()
