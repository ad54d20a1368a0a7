"""Requests that are decoded together, and which of them are next."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable

from lightrl.parts.engine import Request


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
        """Begin as many requests as there are places.

        Args:
            present: requests that are being decoded.
        """
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
