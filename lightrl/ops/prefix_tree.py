"""Rows of tokens as a tree: what several rows begin with stands in it once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

LEAST_SHARED = 16
"""Tokens that a shared beginning has to save; below that, attending to it in a piece of its own costs more than it saves."""


@dataclass(frozen=True)
class Segment:
    """Tokens that follow each other in every row which has them."""

    row: int
    """One of those rows."""
    start: int
    """Position of the first token in a row."""
    stop: int
    """Position behind the last one."""
    parent: int
    """Number of the segment in front of it; -1: the row begins here."""

    @property
    def size(self) -> int:
        """Its tokens."""
        return self.stop - self.start


@dataclass(frozen=True)
class PrefixTree:
    """Segments in an order in which everything that follows a segment stands right behind it."""

    segments: list[Segment]
    """A segment comes after the one in front of it."""
    last: list[int]
    """For each row the number of its last segment, -1 for a row without a token."""

    def path(self, row: int) -> list[int]:
        """Numbers of the segments of a row, the last one first."""
        found, here = [], self.last[row]
        while here >= 0:
            found.append(here)
            here = self.segments[here].parent
        return found


@dataclass(frozen=True)
class SortedRows:
    """Rows in the order of their ids, so that those that begin alike are neighbours."""

    order: list[int]
    """Numbers of the rows."""
    lengths: list[int]
    """Tokens of each, in this order."""
    shared: list[int]
    """Tokens that each has in common with the one before it, from the first on; 0 for the first."""

    def common(self, low: int, high: int) -> int:
        """Tokens that all rows from number `low` up to, but not including, number `high` begin with."""
        return self.lengths[low] if high - low == 1 else min(self.shared[low + 1 : high])

    def tokens(self, low: int, high: int) -> int:
        """Tokens of these rows, those that neighbours share counted once."""
        return sum(self.lengths[low:high]) - sum(self.shared[low + 1 : high])

    def children(self, low: int, high: int) -> list[tuple[int, int]]:
        """The same rows, cut where they have the least in common."""
        least = self.common(low, high)
        cuts = [low, *(i for i in range(low + 1, high) if self.shared[i] == least), high]
        return list(itertools.pairwise(cuts))


def sorted_rows(input_ids: Tensor, lengths: Sequence[int]) -> SortedRows:
    """Sort rows by their ids: `input_ids` is `[N, L]` int64, on the CPU, and what follows the N lengths is padding."""
    # padding sorts in front of every id, and big-endian bytes as the numbers do
    ids = input_ids.numpy().astype(">u4")
    ids += 1
    ids[np.arange(ids.shape[1]) >= np.asarray(lengths)[:, None]] = 0
    order = sorted(range(len(ids)), key=[row.tobytes() for row in ids].__getitem__)
    ids = ids[order]
    ends = np.pad((ids[1:] != ids[:-1]) | (ids[1:] == 0), ((0, 0), (0, 1)), constant_values=True)
    shared = [0, *ends.argmax(axis=1).tolist()]
    return SortedRows(order, [lengths[row] for row in order], shared)


def prefix_tree(input_ids: Tensor, lengths: Sequence[int], least: int = LEAST_SHARED) -> PrefixTree:
    """The tree of rows; a beginning that would save fewer than `least` tokens is repeated.

    Args:
        input_ids: `[N, L]` int64, on the CPU.
        lengths: of N rows; what follows is padding.
        least: tokens that a shared segment saves.
    """
    rows = sorted_rows(input_ids, lengths)
    segments: list[Segment] = []
    last = [-1] * len(lengths)
    # runs of sorted rows, how many of their tokens stand already, and in which segment
    todo = [(0, len(lengths), 0, -1)] if lengths else []
    while todo:
        low, high, done, parent = todo.pop()
        common, single = rows.common(low, high), high - low == 1
        if common > done and (single or (common - done) * (high - low - 1) >= least):
            segments.append(Segment(rows.order[low], done, common, parent))
            done, parent = common, len(segments) - 1
        if single:
            last[rows.order[low]] = parent
        else:
            todo += [(a, b, done, parent) for a, b in reversed(rows.children(low, high))]
    return PrefixTree(segments, last)


def flat_ranges(starts: Sequence[int] | np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """`start, start + 1, ...` of each size, one after the other."""
    ends = np.cumsum(sizes, dtype=np.int64)
    offsets = np.asarray(starts, dtype=np.int64) - (ends - np.asarray(sizes, dtype=np.int64))
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(offsets, sizes)
