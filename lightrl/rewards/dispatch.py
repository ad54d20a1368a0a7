"""Calls of an async reward: a limited number at a time, each with a time limit and further attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiolimiter import AsyncLimiter
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_exception, wait_random_exponential

from lightrl.parts.reward import AsyncReward
from lightrl.rewards.row_call import Call, PlainScore, plain_score
from lightrl.workers.calls import Answer, failed
from lightrl.workers.event_loop import CallLoop, in_time

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

    async def answer(self, calls: Sequence[Call], answers: dict[int, Answer]) -> None:
        async with asyncio.TaskGroup() as group:
            for place, call in enumerate(calls):
                if place not in answers:
                    group.create_task(self._answer_one(place, call, answers))
        for place in range(len(calls)):
            # something has cancelled the task of this call alone
            answers.setdefault(place, failed(asyncio.CancelledError()))

    async def farewell(self, patience_s: float) -> None:
        await self._reward.close()

    def method(self, call: Call) -> str:
        return "score()"

    async def _answer_one(self, place: int, call: Call, answers: dict[int, Answer]) -> None:
        retrying = AsyncRetrying(
            stop=stop_after_attempt(self._reward.retries + 1),
            wait=wait_random_exponential(multiplier=FIRST_PAUSE, max=LONGEST_PAUSE) + wait_exception(_asked_pause),
            retry=retry_if_exception_type(self._reward.transient),
            reraise=True,
        )
        try:
            answers[place] = Answer(await retrying(self._attempt, call))
        except Exception as error:
            answers[place] = failed(error, limit=self._reward.timeout_s)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # something that the reward itself waited for was cancelled
            answers[place] = failed(error)

    async def _attempt(self, call: Call) -> PlainScore:
        async with self._room:
            if self._rate is not None:
                for _ in range(self._reward.requests(call.prompt, call.completion, **call.columns)):
                    await self._rate.acquire()
            return await in_time(lambda: self._scored(call), self._reward.timeout_s)

    async def _scored(self, call: Call) -> PlainScore:
        return plain_score(await self._reward.score(call.prompt, call.completion, **call.columns))


def _asked_pause(error: BaseException) -> float:
    return min(LONGEST_ASKED, float(getattr(error, "retry_after", None) or 0.0))
