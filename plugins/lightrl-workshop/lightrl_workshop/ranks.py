"""The ranks of a run, played by threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from torch import Tensor

from lightrl.ranks import Ranks

T = TypeVar("T")


class Meeting:
    """The collective calls of several ranks, each of them a thread: a rank waits here for the others."""

    def __init__(self, ranks: int, timeout_s: float | None = 10.0) -> None:
        """Of so many ranks; one that waits longer than `timeout_s` for the others hangs. None: it waits until one of them has left."""
        self.ranks, self._timeout_s = ranks, timeout_s
        self._news = threading.Condition()
        self._calls: list[list[tuple[str, Any]]] = [[] for _ in range(ranks)]
        self._gone = [False] * ranks

    def exchange(self, rank: int, what: str, value: T | None = None) -> list[T]:
        """The value of every rank in its call of the same number; a RuntimeError if ranks call different things, or one does not call."""
        with self._news:
            turn = len(self._calls[rank])
            self._calls[rank].append((what, value))
            self._news.notify_all()
            self._news.wait_for(lambda: self._all_called(turn) or self._one_is_gone(turn), self._timeout_s)
            if not self._all_called(turn):
                raise RuntimeError(f"rank {rank} calls {what}() and another rank calls nothing: the run would hang")
            said = [calls[turn] for calls in self._calls]
        if len({name for name, _ in said}) > 1:
            calls = ", ".join(f"rank {i} {name}()" for i, (name, _) in enumerate(said))
            raise RuntimeError(f"ranks call different things at once: {calls}")
        return [value for _, value in said]

    def leave(self, rank: int) -> None:
        """End this rank; a rank that still waits for it gets an error."""
        with self._news:
            self._gone[rank] = True
            self._news.notify_all()

    def _all_called(self, turn: int) -> bool:
        return all(len(calls) > turn for calls in self._calls)

    def _one_is_gone(self, turn: int) -> bool:
        return any(gone and len(calls) <= turn for gone, calls in zip(self._gone, self._calls, strict=True))


def on_ranks(count: int, act: Callable[[int, Ranks], T]) -> list[T]:
    """The outcome of an action on each of several ranks, given its number and the ranks, which may gather values from each other.

    Raises:
        RuntimeError: one rank called `gather` or `total` more often than another, which would hang a real run.
    """
    meeting = Meeting(count, timeout_s=None)

    def play(rank: int) -> T:
        try:
            return act(rank, _ThreadRank(meeting, rank))
        finally:
            meeting.leave(rank)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(play, range(count)))


class _ThreadRank:
    """One of the ranks."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self._meeting, self._rank = meeting, rank

    def gather(self, value: T) -> list[T]:
        """As `Ranks.gather`."""
        return self._meeting.exchange(self._rank, "gather", value)

    def total(self, values: Tensor) -> Tensor:
        """As `Ranks.total`."""
        return torch.stack(self._meeting.exchange(self._rank, "total", values)).sum(0)
