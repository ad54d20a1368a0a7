"""The order in which prompts are drawn: epochs, shuffling, ranks, the shares of a mixture, and the position that a resume starts from."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import torch
from numpy.typing import NDArray

from lightrl.parts.prompts import PromptSource
from lightrl.types import JSON


class PromptStream:
    """Endless indices into a prompt source, every one exactly once per data epoch whatever the number of ranks.

    All ranks walk one global order and each takes its slice of every block, so the position is the same on all of them
    and a run may be resumed with another number of ranks.
    """

    def __init__(self, size: int | None, shuffle: bool = True, seed: int = 0, rank: int = 0, world_size: int = 1) -> None:
        """
        Args:
            size: number of prompts; None counts upwards without an end.
            shuffle: a new order in every epoch; without effect on an endless source.

        Raises:
            ValueError: there is no prompt, or no such rank.
        """
        if size is not None and size < 1:
            raise ValueError("there is no prompt to draw")
        if not 0 <= rank < world_size:
            raise ValueError(f"a rank lies between 0 and {world_size - 1} in a world of {world_size}, got {rank}")
        self.size, self.shuffle, self.seed, self.rank, self.world_size = size, shuffle, seed, rank, world_size
        self.epoch = 0
        self.position = 0
        self._order: tuple[int, torch.Tensor] | None = None

    def draw(self, n: int | Sequence[int]) -> list[int]:
        """The next indices of this rank; collective, every rank gives the same argument.

        A block of positions, which may reach into the next epoch, is cut into one consecutive slice per rank.

        Args:
            n: how many for each rank; a sequence gives every rank its own number.

        Raises:
            ValueError: a number is negative, or there are not as many as ranks.
        """
        return [index for _, index in self.draw_in_epochs(n)]

    def draw_in_epochs(self, n: int | Sequence[int]) -> list[tuple[int, int]]:
        """As `draw`, each index with the data epoch that it belongs to, 0 for the first and for all of an endless source."""
        counts = counts_of(n, self.world_size)
        start = self.position + sum(counts[: self.rank])
        drawn = [self._index(position) for position in range(start, start + counts[self.rank])]
        self.position += sum(counts)
        if self.size is not None:
            epochs, self.position = divmod(self.position, self.size)
            self.epoch += epochs
        return drawn

    def state_dict(self) -> dict[str, JSON]:
        """The position in the order: the data epoch and the global position in it; the same on all ranks."""
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, JSON]) -> None:
        """Go on where `state_dict` was taken."""
        self.epoch, self.position = state["epoch"], state["position"]

    def _index(self, position: int) -> tuple[int, int]:
        if self.size is None:
            return 0, position
        epochs, offset = divmod(position, self.size)
        epoch = self.epoch + epochs
        if not self.shuffle:
            return epoch, offset
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, torch.randperm(self.size, generator=torch.Generator().manual_seed(_seed(self.seed, epoch)))
        return epoch, int(self._order[1][offset])


def counts_of(n: int | Sequence[int], ranks: int) -> list[int]:
    """How many indices each rank draws, given one number for all or one for each; a ValueError if one is negative or missing."""
    counts = [n] * ranks if isinstance(n, int) else list(n)
    if min(counts) < 0:
        raise ValueError(f"cannot draw {min(counts)} prompts")
    if len(counts) != ranks:
        raise ValueError(f"cannot draw {counts} prompts: {len(counts)} numbers for {ranks} ranks")
    return counts


def indices_of_parts(source: PromptSource) -> dict[str, NDArray[np.int64]]:
    """The indices of a sized source by the part they belong to; a ValueError if a part has a share and no prompt."""
    names = np.array([source.part(index) for index in range(source.size or 0)])
    found = {str(name): np.flatnonzero(names == name) for name in np.unique(names)}
    if empty := sorted(set(source.shares(0)) - set(found)):
        raise ValueError(f"no prompt of {empty[0]!r} is left to train on, and the mixture has a weight for it: leave it out")
    return found


class MixedStream:
    """Endless indices into a source of several parts, each part as often as its share says, whatever the number of ranks.

    Every part gets its share of credit for each prompt, and the one with the most credit pays 1 and is drawn (of equals, the first by
    name). All ranks walk one global order and each takes its slice of every block, as in `PromptStream`.
    """

    def __init__(self, source: PromptSource, shuffle: bool, seed: int, rank: int = 0, world_size: int = 1) -> None:
        """
        Args:
            source: sized, with shares.
            shuffle: each part has a new order in each of its epochs.

        Raises:
            ValueError: a part has a share and no prompt.
        """
        self._source, self._rank, self._world = source, rank, world_size
        self._indices = indices_of_parts(source)
        # parts of one size would be in one order with the same seed
        self._streams = {name: PromptStream(len(of), shuffle, _seed(seed, name)) for name, of in self._indices.items()}
        self._credit = dict.fromkeys(self._indices, 0.0)
        self._drawn = 0

    def draw_in_epochs(self, n: int | Sequence[int]) -> list[tuple[int, int]]:
        """See `PromptStream.draw_in_epochs`; an epoch is that of the index's part."""
        counts = counts_of(n, self._world)
        start = sum(counts[: self._rank])
        return [self._next() for _ in range(sum(counts))][start : start + counts[self._rank]]

    def state_dict(self) -> dict[str, JSON]:
        """Prompts drawn, and of each part its credit and its place; the same on all ranks."""
        return {"drawn": self._drawn, "credit": dict(self._credit), "parts": {name: of.state_dict() for name, of in self._streams.items()}}

    def load_state_dict(self, state: dict[str, JSON]) -> None:
        """Go on where `state_dict` was taken."""
        self._drawn, self._credit = state["drawn"], dict(state["credit"])
        for name, stream in self._streams.items():
            stream.load_state_dict(state["parts"][name])

    def _next(self) -> tuple[int, int]:
        for name, share in self._source.shares(self._drawn).items():
            self._credit[name] += share
        chosen = max(sorted(self._credit), key=self._credit.__getitem__)
        self._credit[chosen] -= 1.0
        self._drawn += 1
        ((epoch, index),) = self._streams[chosen].draw_in_epochs(1)
        return epoch, int(self._indices[chosen][index])


def _seed(seed: int, of: int | str) -> int:
    return int.from_bytes(blake2b(f"{seed}:{of}".encode(), digest_size=7).digest(), "little")
