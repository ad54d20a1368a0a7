"""Which requests are decoded together: a function of the requests and a setting, never of timing or of the number of processes."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lightrl.parts.engine import Request, Sampling
from lightrl.rollout.decode.batches import batches

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
        """
        Args:
            slice_rows: most requests in a slice; None: all of a call.
        """
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
    out: list[list[Request]] = []
    for request in requests:
        if out and out[-1][0].context is request.context:
            out[-1].append(request)
        else:
            out.append([request])
    return out
