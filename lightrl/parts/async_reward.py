"""Rewards that wait for somebody else: a judge, a service."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from lightrl.parts.reward import RowReward, RowScore, Runs
from lightrl.prompt import Prompt
from lightrl.ranges import Count, Natural, Positive, Weight


class AsyncReward(RowReward):
    """Scores one completion at a time by waiting for an answer; many wait at once, in one event loop.

    Calls that raise one of `transient` are repeated after random pauses that grow exponentially, longer by the exception's `retry_after`
    (seconds) if it has one. A call that takes too long is cancelled; one that then goes on is left to itself, and what it returns is late.
    """

    runs: Runs = "async"
    transient: tuple[type[Exception], ...] = (ConnectionError, TimeoutError)
    """Exceptions that may not happen the next time."""

    def __init__(
        self,
        weight: Weight = 1.0,
        timeout_s: Positive = 60.0,
        concurrency: Count = 16,
        retries: Natural = 3,
        requests_per_minute: Positive | None = None,
        **kwargs: Any,
    ) -> None:
        """
        Args:
            weight: the factor in the sum of rewards; 0 scores and logs without training on it.
            timeout_s: wall-clock seconds for one call, after which it is cancelled; the next attempt has as many.
            concurrency: calls under way at the same time; at least 1.
            retries: further attempts after a transient error; at least 0.
            requests_per_minute: requests per minute, those of further attempts included; a call sends as many as `requests` says. null: no
                limit.
            **kwargs: the arguments of `Reward`, and `cache`.

        Raises:
            ValueError: an argument outside its range.
        """
        super().__init__(weight, timeout_s=timeout_s, **kwargs)
        self.concurrency, self.retries, self.requests_per_minute = concurrency, retries, requests_per_minute

    @abstractmethod
    async def score(self, prompt: Prompt, completion: str, **columns: Any) -> RowScore:
        """As `RowReward.score`, awaited. It must not block the loop: no `time.sleep`, no synchronous client."""

    def requests(self, prompt: Prompt, completion: str, **columns: object) -> int:
        """How many requests `score` sends for these arguments, for `requests_per_minute`: one."""
        return 1

    async def close(self) -> None:
        """Give back what `score` opened; awaited once in the loop that `score` ran in."""
