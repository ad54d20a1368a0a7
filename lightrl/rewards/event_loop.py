"""Rewards that wait for other services: many calls at once in one event loop, each with a time limit, retries and a rate."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from typing import Any

from lightrl.parts.async_reward import AsyncReward
from lightrl.rewards.dispatch import Dispatcher
from lightrl.rewards.row_call import Answer, Call
from lightrl.workers.loop_thread import LoopThread

CLOSE_TIMEOUT_S = 5.0
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

    def check(self) -> None:
        """It runs in this process."""

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
        self._future: Future[Any] = loop.thread.run(loop.dispatcher.answer(calls, self._answers))

    def result(self) -> list[Answer]:
        limit = self._loop.reward.timeout_s + CLOSE_TIMEOUT_S
        stuck = Answer(error=f"score() has blocked its event loop for {limit:g} s: it must await, not wait", late=True)
        try:
            if not self._loop.thread.wait(self._future, limit):
                self._runner.abandon(self._loop)
        except CancelledError:
            stuck = Answer(error="score() has cancelled everything in its event loop")
        return [answer or stuck for answer in self._answers]


class _Loop:
    """An event loop in a thread, and the dispatcher that all its calls share."""

    def __init__(self, reward: AsyncReward) -> None:
        self.reward, self.dispatcher = reward, Dispatcher(reward)
        self.thread = LoopThread("reward loop", self.dispatcher.close)

    def close(self) -> None:
        """Close the reward and end the loop."""
        self.thread.close(self.reward.close, CLOSE_TIMEOUT_S)

    def end(self) -> None:
        """Cancel the calls under way and stop the loop, as soon as it runs."""
        self.thread.end()
