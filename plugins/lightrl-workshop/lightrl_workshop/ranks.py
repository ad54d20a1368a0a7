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


def on_ranks(count: int, act: Callable[[int, Ranks], T]) -> list[T]:
    """The outcome of an action on each of several ranks, which may gather values from each other.

    Args:
        count: ranks.
        act: is given the number of its rank, from 0, and the ranks.

    Raises:
        RuntimeError: one rank called `gather` or `total` more often than another, which would hang a real run.
    """
    exchange = _Exchange(count)

    def play(rank: int) -> T:
        own = _ThreadRank(exchange, rank)
        try:
            return act(rank, own)
        finally:
            exchange.leave(rank, own.calls)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(play, range(count)))


class _ThreadRank:
    """One of the ranks."""

    def __init__(self, exchange: _Exchange, rank: int) -> None:
        self.calls = 0
        self._exchange, self._rank = exchange, rank

    def gather(self, value: T) -> list[T]:
        """As `Ranks.gather`."""
        self.calls += 1
        return self._exchange.gather(self._rank, self.calls, value)

    def total(self, values: Tensor) -> Tensor:
        """As `Ranks.total`."""
        return torch.stack(self.gather(values)).sum(0)


class _Exchange:
    """The values of each call, by rank."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._given: dict[int, dict[int, Any]] = {}
        self._left: dict[int, int] = {}
        self._changed = threading.Condition()

    def gather(self, rank: int, call: int, value: T) -> list[T]:
        """Wait for the values of the same call on the other ranks."""
        with self._changed:
            given = self._given.setdefault(call, {})
            given[rank] = value
            self._changed.notify_all()
            self._changed.wait_for(lambda: len(given) == self._count or any(calls < call for calls in self._left.values()))
            if len(given) < self._count:
                missing = sorted({*range(self._count)} - {*given})
                often = f"rank {rank} calls ranks.gather or ranks.total {call} times, and rank {missing[0]} fewer times"
                raise RuntimeError(f"{often}: a run would wait for ever")
            return [given[other] for other in range(self._count)]

    def leave(self, rank: int, calls: int) -> None:
        """Note that a rank is done."""
        with self._changed:
            self._left[rank] = calls
            self._changed.notify_all()
