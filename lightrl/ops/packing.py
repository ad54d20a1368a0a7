"""Rows of a micro-batch in one row without padding, in which what they begin with alike stands once.

Every row attends to its own tokens alone: a token sees those in front of it in the tree of rows (`prefix_tree`), of which it is a
path. So the result is that of plain rows, and the gradient of a shared token is the sum over the rows that have it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from lightrl.ops.prefix_tree import LEAST_SHARED, PrefixTree, Segment, flat_ranges, prefix_tree
from lightrl.rows import onto

T = TypeVar("T")

SPARE_PAIRS = 4096
"""Pairs of query and key that may be computed for nothing to save one more call of the attention."""


@dataclass(frozen=True)
class Block:
    """Segments of alike shape, whose attention is computed in one call: B segments, at most Q tokens each and K in front or in them."""

    queries: Tensor
    """`[B, Q]` int64, places of the segments' tokens; place 0 where a segment is shorter."""
    keys: Tensor
    """`[B, K]` int64, places of the tokens of the row up to the segment's end; place 0 where it is shorter."""
    starts: Tensor
    """`[B]` int64, position of each segment's first token in its row."""
    causal: bool
    """Every segment begins its row."""

    def mask(self, window: int | None) -> Tensor | None:
        """`[B, 1, Q, K]` bool: the keys that a query sees; None: plainly those up to itself.

        Args:
            window: keys that a query sees at most, itself included; None: any number.
        """
        if self.causal and (window is None or window >= self.keys.shape[1]):
            return None
        device = self.starts.device
        query = self.starts[:, None, None] + torch.arange(self.queries.shape[1], device=device)[:, None]
        key = torch.arange(self.keys.shape[1], device=device)
        seen = key <= query
        return (seen if window is None else seen & (key > query - window))[:, None]


@dataclass(frozen=True)
class PackedRows:
    """n rows as T tokens."""

    input_ids: Tensor
    """`[1, T]` int64."""
    position_ids: Tensor
    """`[1, T]` int64, the position of each token in the rows that have it."""
    ends: Tensor
    """`[T]` int64: the first place from which on no token has this one in front of it in its row."""
    places: Tensor
    """`[n, L]` int64: where each token of each row stands; 0 for padding."""
    blocks: list[Block]
    """All tokens are queries of one of them."""
    inverse: Tensor
    """`[T]` int64: where each token stands among the queries of all blocks."""
    made: dict[tuple[str, int | None], Any] = field(default_factory=dict)
    """Masks by kind and window, once they were asked for."""

    def __len__(self) -> int:
        return self.input_ids.shape[1]

    def kept(self, name: str, window: int | None, make: Callable[[PackedRows, int | None], T]) -> T:
        """The value computed of a window, once for all layers."""
        if (name, window) not in self.made:
            self.made[name, window] = make(self, window)
        found: T = self.made[name, window]
        return found

    def to(self, device: torch.device) -> PackedRows:
        """The same on a device."""
        if device == self.input_ids.device:
            return self
        blocks = [Block(onto(b.queries, device), onto(b.keys, device), onto(b.starts, device), b.causal) for b in self.blocks]
        tensors = (self.input_ids, self.position_ids, self.ends, self.places, self.inverse)
        input_ids, position_ids, ends, places, inverse = (onto(tensor, device) for tensor in tensors)
        return PackedRows(input_ids, position_ids, ends, places, blocks, inverse)


def pack(input_ids: Tensor, lengths: Sequence[int], least: int = LEAST_SHARED) -> PackedRows:
    """Lay out rows.

    Args:
        input_ids: `[n, L]` int64, on the CPU.
        lengths: of n rows; what follows is padding. At least one row has a token.
        least: tokens that a shared beginning has to save.
    """
    tree = prefix_tree(input_ids, lengths, least)
    starts, sizes = [s.start for s in tree.segments], [s.size for s in tree.segments]
    offsets = np.cumsum([0, *sizes]).tolist()
    width = input_ids.shape[1]
    places = _places(tree, offsets, len(lengths), width)
    taken = flat_ranges([s.row * width + s.start for s in tree.segments], sizes)
    runs = _runs(tree.segments)
    return PackedRows(
        input_ids=input_ids.reshape(-1)[torch.from_numpy(taken)][None],
        position_ids=torch.from_numpy(flat_ranges(starts, sizes))[None],
        ends=torch.from_numpy(np.repeat(_ends(tree, offsets), sizes)),
        places=torch.from_numpy(places),
        blocks=[_block([tree.segments[i] for i in run], [offsets[i] for i in run], places) for run in runs],
        inverse=_inverse(runs, tree.segments, offsets),
    )


def _ends(tree: PrefixTree, offsets: list[int]) -> list[int]:
    """For each segment the place behind the last one that follows it in a row."""
    ends = offsets[1:]
    for number in range(len(tree.segments) - 1, -1, -1):
        parent = tree.segments[number].parent
        if parent >= 0:
            ends[parent] = max(ends[parent], ends[number])
    return ends


def _places(tree: PrefixTree, offsets: list[int], rows: int, width: int) -> np.ndarray:
    places = np.zeros(rows * width, dtype=np.int64)
    paths = [(row * width, number) for row in range(rows) for number in tree.path(row)]
    sizes = [tree.segments[number].size for _, number in paths]
    places[flat_ranges([first + tree.segments[number].start for first, number in paths], sizes)] = flat_ranges(
        [offsets[number] for _, number in paths], sizes
    )
    return places.reshape(rows, width)


def _runs(segments: Sequence[Segment]) -> list[list[int]]:
    """Numbers of segments of alike shape, cut where padding them to one shape would cost more than another call."""
    order = sorted(range(len(segments)), key=lambda i: (segments[i].start > 0, -segments[i].size, -segments[i].stop))
    runs: list[list[int]] = []
    queries = keys = pairs = 0
    for number in order:
        segment = segments[number]
        wide, long = max(queries, segment.size), max(keys, segment.stop)
        spare = wide * long * (len(runs[-1]) + 1) - pairs - segment.size * segment.stop if runs else 0
        if not runs or spare > SPARE_PAIRS + pairs // 4 or (segments[runs[-1][0]].start > 0) != (segment.start > 0):
            runs.append([])
            wide, long, pairs = segment.size, segment.stop, 0
        runs[-1].append(number)
        queries, keys, pairs = wide, long, pairs + segment.size * segment.stop
    return runs


def _block(segments: Sequence[Segment], offsets: Sequence[int], places: np.ndarray) -> Block:
    """The segments padded to one shape; `places` is `[n, L]`, where each token of each row stands."""
    sizes, stops = np.asarray([s.size for s in segments]), np.asarray([s.stop for s in segments])
    query, key = np.arange(sizes.max()), np.arange(stops.max())
    queries = np.where(query < sizes[:, None], np.asarray(offsets)[:, None] + query, 0)
    keys = np.where(key < stops[:, None], places[[s.row for s in segments], : len(key)], 0)
    starts = torch.tensor([s.start for s in segments])
    return Block(torch.from_numpy(queries), torch.from_numpy(keys), starts, causal=not starts.any())


def _inverse(runs: Sequence[Sequence[int]], segments: Sequence[Segment], offsets: Sequence[int]) -> Tensor:
    """`[T]`: where each token stands among the queries of the blocks."""
    order = [number for run in runs for number in run]
    wide = np.repeat([max(segments[number].size for number in run) for run in runs], [len(run) for run in runs])
    sizes = [segments[number].size for number in order]
    inverse = np.empty(offsets[-1], dtype=np.int64)
    inverse[flat_ranges([offsets[number] for number in order], sizes)] = flat_ranges(np.cumsum(wide) - wide, sizes)
    return torch.from_numpy(inverse)
