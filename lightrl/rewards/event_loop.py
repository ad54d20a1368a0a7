"""Rewards that wait for other services: many calls at once in one event loop, each with a time limit, retries and a rate."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from lightrl.parts.async_reward import AsyncReward
from lightrl.rewards.dispatch import Dispatcher
from lightrl.rewards.row_call import Answer, Call

CHECK_S = 0.1
"""Seconds between two checks that the loop still runs."""
PATIENCE = 5.0
"""Seconds that a reward may take to close, and that a loop may stand still beyond a call's time limit."""


class AsyncRunner:
    """Makes calls in an event loop of the reward's own, which runs in a thread."""

    def __init__(self, reward: AsyncReward) -> None:
        """
        Args:
            reward: with its `timeout_s`, `concurrency`, `retries`, `requests_per_minute` and `transient`.
        """
        self._reward = reward
        self._loop: _Loop | None = None

    def start(self) -> None:
        """Start the loop."""
        self._started()

    def submit(self, calls: Sequence[Call]) -> _Waiting:
        """Put all calls into the loop."""
        return _Waiting(self, self._started(), calls)

    def close(self) -> None:
        """Let the reward close its connections, and end the loop."""
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    def _started(self) -> _Loop:
        if self._loop is None:
            self._loop = _Loop(self._reward)
            weakref.finalize(self, self._loop.end)
        return self._loop

    def abandon(self, loop: _Loop) -> None:
        """Give up a loop that stands still; the next calls get another one."""
        loop.end()
        if self._loop is loop:
            self._loop = None


class _Waiting:
    def __init__(self, runner: AsyncRunner, loop: _Loop, calls: Sequence[Call]) -> None:
        self._runner, self._loop = runner, loop
        self._answers: list[Answer | None] = [None] * len(calls)
        self._future: Future[Any] = asyncio.run_coroutine_threadsafe(loop.dispatcher.answer(calls, self._answers), loop.loop)

    def result(self) -> list[Answer]:
        limit = self._loop.reward.timeout_s + PATIENCE
        stuck = Answer(error=f"score() has blocked its event loop for {limit:g} s: it must await, not wait", late=True)
        try:
            while not self._future.done():
                try:
                    self._future.result(CHECK_S)
                except TimeoutError:
                    if not self._future.done() and self._loop.still_for() > limit:
                        self._runner.abandon(self._loop)
                        return [answer or stuck for answer in self._answers]
            self._future.result()
        except BaseException:
            self._future.cancel()
            raise
        return [answer or stuck for answer in self._answers]


class _Loop:
    """A thread that runs an event loop, and the dispatcher that all its calls share."""

    def __init__(self, reward: AsyncReward) -> None:
        self.reward, self.loop = reward, asyncio.new_event_loop()
        self.dispatcher = Dispatcher(reward)
        self._ran_at = time.monotonic()
        self.loop.call_soon(self._note)
        self._thread = threading.Thread(target=self.loop.run_forever, name="reward loop", daemon=True)
        self._thread.start()

    def still_for(self) -> float:
        """Seconds since the loop was last seen running."""
        return time.monotonic() - self._ran_at

    def close(self) -> None:
        """Close the reward and end the loop; one that stands still is not waited for long."""
        if self.loop.is_running() and self.still_for() < PATIENCE:
            asyncio.run_coroutine_threadsafe(self.reward.close(), self.loop).result(PATIENCE)
        self.end()
        self._thread.join(PATIENCE)

    def end(self) -> None:
        """Cancel the calls under way and stop the loop, as soon as it runs."""
        if self.loop.is_running():
            asyncio.run_coroutine_threadsafe(self._end(), self.loop)

    async def _end(self) -> None:
        self.dispatcher.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        self.loop.call_soon(self.loop.stop)

    def _note(self) -> None:
        self._ran_at = time.monotonic()
        self.loop.call_later(CHECK_S, self._note)
