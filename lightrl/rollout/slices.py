"""Which rows are generated together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True)
class Slice:
    """Some prompts, and the same samples of each of them."""

    prompts: list[int]
    """Indices of the prompts."""
    samples: range
    """Which of their n samples."""


def slices(lengths: Sequence[int], n: int, max_rows: int | None, padding: bool) -> Iterator[Slice]:
    """Slices of at most `max_rows` rows that cover n samples of every prompt once.

    Prompts stay whole, unless n alone is more than `max_rows`. Where there are several slices, prompts of similar length meet.

    Args:
        lengths: tokens of each prompt.
        n: samples per prompt.
        max_rows: at least 1; None puts everything in one slice.
        padding: prompts of different lengths may share a slice.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    runs = [order] if padding else [list(run) for _, run in groupby(order, key=lengths.__getitem__)]
    rows = max_rows or max(1, n * len(lengths))
    together = max(1, rows // n)
    for run in runs:
        for begin in range(0, len(run), together):
            for first in range(0, n, rows):
                yield Slice(run[begin : begin + together], range(first, min(first + rows, n)))
