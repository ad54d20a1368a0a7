"""Which requests are decoded together, and which of them are next: a function of the requests and a setting, never of timing."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from lightrl.parts.engine import Request, Sampling

Alike = tuple[Sampling, frozenset[int], int | None]
"""Requests that agree in sampling, ends and the slice of their episodes (None: a first turn) may be decoded together."""


@dataclass(frozen=True)
class Slice:
    """Requests that are decoded together."""

    number: int
    """Of the slice in which their episodes began."""
    requests: list[Request]
    """Those with one context are neighbours, and short contexts come first."""


class Slices:
    """Cuts requests into slices; episodes that began in one slice stay together, so that keys and values need not travel."""

    def __init__(self, slice_rows: int | None) -> None:
        """`slice_rows`: most requests in a slice; None: all of a call."""
        self._slice_rows = slice_rows
        self._numbers = iter(range(sys.maxsize))  # unlike `count`, copied and pickled by every Python
        self._began: dict[int, int] = {}

    def cut(self, requests: Sequence[Request]) -> list[Slice]:
        """The slices of requests of one call; those that differ in how tokens are drawn or in `ends` do not share one."""
        alike: dict[Alike, list[Request]] = {}
        for request in requests:
            alike.setdefault((request.sampling, request.ends, self._began.get(request.episode)), []).append(request)
        slices = [part for (_, _, began), group in alike.items() for part in self._parts(group, began)]
        for part in slices:
            for request in part.requests:
                if request.open:
                    self._began[request.episode] = part.number
                else:
                    self._began.pop(request.episode, None)
        return slices

    def forget(self, episodes: Collection[int]) -> None:
        """Drop episodes that are over."""
        for episode in episodes:
            self._began.pop(episode, None)

    def clear(self) -> None:
        """Drop all episodes: those that go on begin anew."""
        self._began.clear()

    def _parts(self, requests: Sequence[Request], began: int | None) -> list[Slice]:
        contexts = with_one_context(requests)
        cuts = batches([len(rows[0].context) for rows in contexts], [len(rows) for rows in contexts], self._slice_rows, padding=True)
        found = [[contexts[share.context][row] for share in shares for row in share.rows] for shares in cuts]
        return [Slice(next(self._numbers) if began is None else began, rows) for rows in found]


def with_one_context(requests: Sequence[Request]) -> list[list[Request]]:
    """Runs of neighbours that share the list of their context."""
    return [list(run) for _, run in groupby(requests, key=lambda request: id(request.context))]


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


class RequestBatch:
    """Some requests at a time; as they end, others take their places."""

    def __init__(self, requests: Iterable[list[Request]], max_rows: int | None, kept: bool) -> None:
        """
        Args:
            requests: in the order in which they begin; those of one list have one context. All agree in how tokens are drawn
                and in what ends them.
            max_rows: most requests at a time; None: all.
            kept: their episodes were begun, and what was read of them is there.
        """
        self._waiting = deque(requests)
        self._max_rows = max_rows
        self._open = any(request.open for alike in self._waiting for request in alike)
        self.kept = kept
        self.begun: list[Request] = []
        """Those that are or were decoded; a row's number is its place here."""
        self.forgotten: set[int] = set()
        """Episodes whose results are not wanted any more; their rows stay, since the rows beside a row decide how it is rounded."""
        self.most = 0
        """Most requests that were decoded at a time."""
        self.answered: set[int] = set()
        """Numbers of the requests that have a result."""

    @property
    def left(self) -> bool:
        """Some requests have not begun."""
        return bool(self._waiting)

    @property
    def awaited(self) -> bool:
        """A row that leaves is waited for: others want its place, or its episode goes on."""
        return self._open or self.left

    @property
    def first(self) -> Request:
        """One of them."""
        return self._waiting[0][0] if self._waiting else self.begun[0]

    def take(self, present: int) -> list[Request]:
        """Begin as many requests as there are places. `present`: requests that are being decoded."""
        taken: list[Request] = []
        while self._waiting and (self._max_rows is None or present + len(taken) < self._max_rows):
            alike = self._waiting.popleft()
            places = len(alike) if self._max_rows is None else self._max_rows - present - len(taken)
            taken += alike[:places]
            # a context is read again for those that have to wait: that costs less than places that stay empty
            if alike[places:]:
                self._waiting.appendleft(alike[places:])
        self.begun += taken
        self.most = max(self.most, present + len(taken))
        return taken

    def unanswered(self) -> tuple[list[Request], list[Request]]:
        """The requests whose results are still wanted: those that have begun, and the others."""
        begun = [request for request in self.begun if request.id not in self.answered and request.episode not in self.forgotten]
        return begun, [request for alike in self._waiting for request in alike if request.episode not in self.forgotten]

    def drop(self, episodes: Collection[int]) -> None:
        """Drop requests that have not begun."""
        left = ([request for request in alike if request.episode not in episodes] for alike in self._waiting)
        self._waiting = deque(alike for alike in left if alike)

    def forget(self, episodes: Collection[int]) -> bool:
        """Leave results of episodes out from now on; True if none is wanted any more."""
        self.forgotten |= set(episodes)
        every = [*self.begun, *(request for alike in self._waiting for request in alike)]
        return all(request.episode in self.forgotten for request in every)
