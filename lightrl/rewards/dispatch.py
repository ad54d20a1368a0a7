"""Calls of an async reward: a limited number at a time, each with a time limit and further attempts."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any

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
Settled = tuple[PlainScore, BaseException | None]
"""What a call came to: a score, or why there is none."""


class Dispatcher(CallLoop[Call]):
    """Starts a call as soon as fewer than `concurrency` are under way; all of it happens in one event loop of the reward's own.

    A call gets its task when its turn comes, not before: thousands of tasks that wait for one another cost more than the calls.
    """

    def __init__(self, reward: AsyncReward) -> None:
        """
        Args:
            reward: with its `timeout_s`, `concurrency`, `retries`, `requests_per_minute` and `transient`.
        """
        self._reward = reward
        self._free = reward.concurrency
        self._queue: deque[_Attempt] = deque()
        rate = reward.requests_per_minute
        self._rate = None if rate is None else AsyncLimiter(max(1.0, rate / 60), max(1.0, 60 / rate))
        self._context = contextvars.copy_context()
        super().__init__("reward loop")

    async def answer(self, calls: Sequence[Call], answers: dict[int, Answer]) -> None:
        asked = {place: call for place, call in enumerate(calls) if place not in answers}
        batch = _Batch(answers, len(asked))
        self._queue.extend(_Attempt(batch, place, call) for place, call in asked.items())
        self._fill()
        try:
            await batch.done
        finally:
            batch.end()

    async def farewell(self, patience_s: float) -> None:
        await self._reward.close()

    def method(self, call: Call) -> str:
        return "score()"

    def before_end(self) -> None:
        self._queue.clear()

    def _fill(self) -> None:
        while self._free and self._queue:
            attempt = self._queue.popleft()
            if not attempt.batch.ended:
                self._free -= 1
                # not by the call itself: one that is cancelled before its first step would keep its place
                self._spawn(attempt, self._make(attempt)).add_done_callback(self._make_room)

    def _make_room(self, task: asyncio.Task[None]) -> None:
        self._free += 1
        self._fill()

    def _spawn(self, attempt: _Attempt, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        # what one call sets in its context is not seen by the next
        task = asyncio.get_running_loop().create_task(work, context=self._context.copy())
        attempt.batch.tasks.add(task)
        task.add_done_callback(attempt.batch.tasks.discard)
        task.add_done_callback(lambda task: self._settle_failed(attempt, task))
        return task

    def _settle_failed(self, attempt: _Attempt, task: asyncio.Task[None]) -> None:
        """Answer for a task that somebody has cancelled, or that has failed beside the call; the batch would wait for it for ever."""
        failure = asyncio.CancelledError() if task.cancelled() else task.exception()
        if failure is not None and not attempt.batch.ended:
            self._settle(attempt, None, failure)

    async def _make(self, attempt: _Attempt) -> None:
        value: PlainScore = None
        failure: BaseException | None = None
        try:
            value = await self._call(attempt.call)
        except asyncio.CancelledError as error:
            if attempt.batch.ended:
                raise
            # something that the reward itself waited for was cancelled
            failure = error
        except Exception as error:
            failure = error
        if failure is None or attempt.again is not None or not self._reward.retries or not isinstance(failure, self._reward.transient):
            self._settle(attempt, value, failure)
        else:
            self._spawn(attempt, self._try_again(attempt, failure))

    def _settle(self, attempt: _Attempt, value: PlainScore, failure: BaseException | None) -> None:
        if attempt.again is None:
            answer = Answer(value) if failure is None else failed(failure, limit=self._reward.timeout_s)
            attempt.batch.put(attempt.place, answer)
        elif not attempt.again.done():
            attempt.again.set_result((value, failure))

    async def _call(self, call: Call) -> PlainScore:
        if self._rate is not None:
            for _ in range(self._reward.requests(call.prompt, call.completion, **call.columns)):
                await self._rate.acquire()
        return await in_time(lambda: self._scored(call), self._reward.timeout_s)

    async def _scored(self, call: Call) -> PlainScore:
        return plain_score(await self._reward.score(call.prompt, call.completion, **call.columns))

    async def _try_again(self, failed: _Attempt, first: Exception) -> None:
        """Further attempts after one that raised `first`; other calls are made between them."""
        failures = [first]

        async def attempt() -> PlainScore:
            if failures:
                raise failures.pop()
            again: asyncio.Future[Settled] = asyncio.get_running_loop().create_future()
            self._queue.appendleft(_Attempt(failed.batch, failed.place, failed.call, again))
            self._fill()
            value, failure = await again
            if failure is not None:
                raise failure
            return value

        retrying = AsyncRetrying(
            stop=stop_after_attempt(self._reward.retries + 1),
            wait=wait_random_exponential(multiplier=FIRST_PAUSE, max=LONGEST_PAUSE) + wait_exception(_asked_pause),
            retry=retry_if_exception_type(self._reward.transient),
            reraise=True,
        )
        value: PlainScore = None
        failure: BaseException | None = None
        try:
            value = await retrying(attempt)
        except asyncio.CancelledError as error:
            if failed.batch.ended:
                raise
            failure = error
        except Exception as error:
            failure = error
        self._settle(failed, value, failure)


def _asked_pause(error: BaseException) -> float:
    return min(LONGEST_ASKED, float(getattr(error, "retry_after", None) or 0.0))


class _Batch:
    """Calls that were handed in together."""

    def __init__(self, answers: dict[int, Answer], left: int) -> None:
        self.answers, self.left, self.ended = answers, left, False
        self.tasks: set[asyncio.Task[None]] = set()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not left:
            self.done.set_result(None)

    def put(self, place: int, answer: Answer) -> None:
        if place in self.answers:
            return
        self.answers[place] = answer
        self.left -= 1
        if not self.left and not self.done.done():
            self.done.set_result(None)

    def end(self) -> None:
        self.ended = True
        for task in self.tasks:
            task.cancel()


class _Attempt:
    __slots__ = ("again", "batch", "call", "place")

    def __init__(self, batch: _Batch, place: int, call: Call, again: asyncio.Future[Settled] | None = None) -> None:
        self.batch, self.place, self.call, self.again = batch, place, call, again
