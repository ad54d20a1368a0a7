"""The order in which the parts of a mixture are drawn: by their shares, each part in an order and in epochs of its own."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from lightrl.data.stream import PromptStream, counts_of
from lightrl.parts.prompts import PromptSource
from lightrl.types import JSON


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
            seed: of the orders.
            rank: of this process.
            world_size: number of processes that draw.

        Raises:
            ValueError: a part has a share and no prompt.
        """
        self._source, self._rank, self._world = source, rank, world_size
        names = np.array([source.part(index) for index in range(source.size or 0)])
        self._indices = {str(name): np.flatnonzero(names == name) for name in np.unique(names)}
        empty = sorted(set(source.shares(0)) - set(self._indices))
        if empty:
            raise ValueError(f"no prompt of {empty[0]!r} is left to train on, and the mixture has a weight for it: leave it out")
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


def _seed(seed: int, name: str) -> int:
    # parts of one size would else be in one order
    return int.from_bytes(blake2b(f"{seed}:{name}".encode(), digest_size=7).digest(), "little")
