"""Episodes that wait for somebody else: many calls at once in one event loop, each with a time limit."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from concurrent.futures import CancelledError

from lightrl.environments.calls import Begin, Call
from lightrl.environments.episode_loop import EpisodeLoop
from lightrl.environments.pending import Done, Pending, Shares
from lightrl.parts.environment import AsyncEnvironment
from lightrl.workers.calls import Answer

CLOSE_TIMEOUT_S = 5.0
"""Seconds that a loop may stand still beyond a call's time limit, and that the episodes may take to end when the run does."""


class AsyncEpisodes:
    """Makes calls in an event loop of the environment's own; one that stands still is abandoned for another."""

    def __init__(self, environment: AsyncEnvironment) -> None:
        """
        Args:
            environment: with its `timeout_s` and `concurrency`.
        """
        self._environment = environment
        self._loop: EpisodeLoop | None = None

    @property
    def limit(self) -> float:
        """Seconds after which a loop that stands still is abandoned."""
        return self._environment.timeout_s + CLOSE_TIMEOUT_S

    def start(self) -> None:
        """Start the loop."""
        self.started()

    def submit(self, calls: Sequence[Call]) -> _Waiting:
        """Put all calls into the loop."""
        return _Waiting(self, calls)

    def end(self, episodes: Sequence[int]) -> Pending:
        """Drop episodes, without waiting for it."""
        if self._loop is None:
            return Done([Answer() for _ in episodes])
        return Shares([list(range(len(episodes)))], [self._loop.end_episodes(episodes)])

    def close(self) -> None:
        """End all episodes, and the loop."""
        if self._loop is not None:
            self._loop.close(CLOSE_TIMEOUT_S)
            self._loop = None

    def started(self) -> EpisodeLoop:
        """The loop that runs now."""
        if self._loop is None:
            self._loop = EpisodeLoop(self._environment)
            weakref.finalize(self, self._loop.thread.end)
        return self._loop

    def abandon(self, loop: EpisodeLoop) -> None:
        """Give up a loop that stands still; another one takes its episodes."""
        if self._loop is loop:
            loop.abandon()
            self._loop = EpisodeLoop(self._environment, loop.history.elsewhere())
            weakref.finalize(self, self._loop.thread.end)


class _Waiting:
    def __init__(self, episodes: AsyncEpisodes, calls: Sequence[Call]) -> None:
        self._episodes, self._calls = episodes, calls
        self._answers: dict[int, Answer] = {}
        self._submit()

    def result(self) -> list[Answer]:
        while not self._done():
            self._episodes.abandon(self._loop)
            self._answers = dict(self._answers)
            self._fail_blocked()
            # whoever only stood behind the one that blocked the loop is asked again
            self._submit()
        return [self._answers[place] for place in range(len(self._calls))]

    def _done(self) -> bool:
        try:
            return self._loop.thread.wait(self._future, self._episodes.limit)
        except CancelledError:
            # another slice has found that the loop stood still, and by now it runs again
            if not self._loop.abandoned:
                raise
            return False

    def _submit(self) -> None:
        self._loop = self._episodes.started()
        self._future = self._loop.thread.run(self._loop.answer(self._calls, self._answers))

    def _fail_blocked(self) -> None:
        limit, blocked = self._episodes.limit, self._loop.blocked_by
        for place, call in enumerate(self._calls):
            if place not in self._answers and (blocked is None or blocked == call.episode):
                method = "begin()" if isinstance(call, Begin) else "reply()"
                reason = f"{method} has blocked its event loop for {limit:g} s: it must await, not wait"
                self._answers[place] = Answer(error=reason, late=True, seconds=limit)
                self._episodes.started().history.fail(call.episode)
