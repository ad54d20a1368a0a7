"""Which contexts are read and decoded together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True)
class Share:
    """Some of the rows that continue one context."""

    context: int
    """Index of the context."""
    rows: range
    """Which of its rows."""


def batches(lengths: Sequence[int], counts: Sequence[int], max_rows: int | None, padding: bool) -> Iterator[list[Share]]:
    """Batches of at most `max_rows` rows that cover every row of every context once.

    The rows of a context stay together, unless they alone are more than `max_rows`. Where there are several batches, contexts of similar
    length meet.

    Args:
        lengths: tokens of each context.
        counts: rows of each context.
        max_rows: at least 1; None puts everything in one batch.
        padding: contexts of different lengths may share a batch.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    runs = [order] if padding else [list(run) for _, run in groupby(order, key=lengths.__getitem__)]
    most = max_rows or max(1, sum(counts))
    for run in runs:
        batch: list[Share] = []
        rows = 0
        for context in run:
            count = counts[context]
            if batch and rows + count > most:
                yield batch
                batch, rows = [], 0
            if count > most:
                yield from ([Share(context, range(first, min(first + most, count)))] for first in range(0, count, most))
            else:
                batch.append(Share(context, range(count)))
                rows += count
        if batch:
            yield batch
