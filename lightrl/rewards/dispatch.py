"""Calls of an async reward: a limited number at a time, each with a time limit and further attempts."""

from __future__ import annotations

import asyncio

from aiolimiter import AsyncLimiter
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_exception, wait_random_exponential

from lightrl.parts.reward import AsyncReward
from lightrl.rewards.row_call import Call, PlainScore, plain_score
from lightrl.workers.calls import Answer
from lightrl.workers.event_loop import CallLoop, answer_of, in_time

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Bounds of the random pause before another attempt: up to the first, then up to twice as much each time."""
LONGEST_ASKED = 60.0
"""Seconds by which an exception's `retry_after` lengthens a pause at most."""


class Dispatcher(CallLoop[Call]):
    """Makes at most `concurrency` calls at a time; a call that waits for another attempt leaves its place to others."""

    def __init__(self, reward: AsyncReward) -> None:
        self._reward = reward
        self._room = asyncio.Semaphore(reward.concurrency)
        rate = reward.requests_per_minute
        self._rate = None if rate is None else AsyncLimiter(max(1.0, rate / 60), max(1.0, 60 / rate))
        super().__init__("reward loop")

    async def farewell(self, patience_s: float) -> None:
        await self._reward.close()

    def method(self, call: Call) -> str:
        return "score()"

    async def answer_one(self, call: Call) -> Answer:
        asked = wait_exception(lambda error: min(LONGEST_ASKED, float(getattr(error, "retry_after", None) or 0.0)))
        retrying = AsyncRetrying(
            stop=stop_after_attempt(self._reward.retries + 1),
            wait=wait_random_exponential(multiplier=FIRST_PAUSE, max=LONGEST_PAUSE) + asked,
            retry=retry_if_exception_type(self._reward.transient),
            reraise=True,
        )
        return await answer_of(lambda: retrying(self._attempt, call), self._reward.timeout_s)

    async def _attempt(self, call: Call) -> PlainScore:
        async with self._room:
            if self._rate is not None:
                for _ in range(self._reward.requests(call.prompt, call.completion, **call.columns)):
                    await self._rate.acquire()
            return await in_time(lambda: self._scored(call), self._reward.timeout_s)

    async def _scored(self, call: Call) -> PlainScore:
        return plain_score(await self._reward.score(call.prompt, call.completion, **call.columns))
