"""An event loop with the copies of an environment whose episodes run in it."""

from __future__ import annotations

import asyncio
import copy
import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from lightrl.environments.calls import Begin, Call, Turn
from lightrl.environments.checked_answers import WrongAnswerError, checked_opening, checked_reply
from lightrl.environments.episodes import OVER
from lightrl.environments.history import History
from lightrl.parts.environment import AsyncEnvironment
from lightrl.prompt import JSON
from lightrl.workers.calls import Answer, describe
from lightrl.workers.loop_thread import LoopThread

log = logging.getLogger(__name__)


class EpisodeLoop:
    """Makes at most `concurrency` calls at a time."""

    def __init__(self, environment: AsyncEnvironment, history: History | None = None) -> None:
        """
        Args:
            environment: copied for every episode, with its `timeout_s` and `concurrency`.
            history: of episodes that are to go on here.
        """
        self._environment, self.history = environment, history or History()
        self._copies: dict[int, AsyncEnvironment] = {}
        self._under_way: dict[asyncio.Task[None], int] = {}
        self._places = asyncio.Semaphore(environment.concurrency)
        self.abandoned = False
        """Another loop has taken its episodes."""
        self.blocked_by: int | None = None
        """Of an abandoned loop, the episode whose call blocks it, if it is one."""
        self.thread = LoopThread("environment loop", lambda: None)

    async def answer(self, calls: Sequence[Begin | Turn], answers: dict[int, Answer]) -> None:
        """Make the calls that have no answer yet, and put each answer into its place."""
        async with asyncio.TaskGroup() as group:
            for place, call in enumerate(calls):
                if place not in answers:
                    task = group.create_task(self._answer_one(place, call, answers))
                    self._under_way[task] = call.episode
                    task.add_done_callback(self._under_way.pop)

    def end_episodes(self, episodes: Sequence[int]) -> None:
        """Let copies give back what they hold, without waiting for it."""
        self.thread.run(self._end(episodes))

    def abandon(self) -> None:
        """Stop it as soon as it runs, and note which episode blocks it."""
        self.abandoned = True
        task = asyncio.current_task(self.thread.loop)
        self.blocked_by = None if task is None else next((e for t, e in list(self._under_way.items()) if t is task), None)
        self.thread.end()

    def close(self, patience: float) -> None:
        """End all episodes, and the loop.

        Args:
            patience: seconds that it may take.
        """
        self.thread.close(lambda: self._end_all(patience / 2), patience)

    async def _answer_one(self, place: int, call: Call, answers: dict[int, Answer]) -> None:
        own: dict[int, Answer] = {}
        async with self._places:
            while not own:
                for step in self.history.steps([call], own):
                    answer = await self._timed(step.call)
                    self.history.note(step, answer, own)
                    if answer.error is not None:
                        break
        answers[place] = own[0]

    async def _timed(self, call: Call) -> Answer:
        started = time.perf_counter()
        answer = await self._perform(call)
        return replace(answer, seconds=time.perf_counter() - started)

    async def _perform(self, call: Call) -> Answer:
        try:
            async with asyncio.timeout(self._environment.timeout_s):
                return Answer(await self._made(call))
        except TimeoutError as error:
            return Answer(error=f"no answer within {self._environment.timeout_s:g} s ({describe(error)})", late=True)
        except WrongAnswerError as wrong:
            return Answer(error=str(wrong))
        except (Exception, SystemExit) as error:
            return Answer(error=describe(error))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # something that the environment itself waited for was cancelled
            return Answer(error=describe(error))

    async def _made(self, call: Call) -> JSON:
        if isinstance(call, Begin):
            environment = copy.deepcopy(self._environment)
            said = await environment.begin(call.prompt, call.seed)
            self._copies[call.episode] = environment
            return checked_opening(said)
        if call.episode not in self._copies:
            raise WrongAnswerError(OVER)
        return checked_reply(await self._copies[call.episode].reply(call.completion))

    async def _end(self, episodes: Sequence[int]) -> None:
        for episode in episodes:
            self.history.drop(episode)
        environments = [environment for episode in episodes if (environment := self._copies.pop(episode, None)) is not None]
        failures = [failure for failure in await asyncio.gather(*map(self._ended, environments)) if failure is not None]
        if failures:
            log.warning("end() of an environment failed in %d episodes; first: %s", len(failures), failures[0])

    async def _ended(self, environment: AsyncEnvironment) -> str | None:
        try:
            async with self._places, asyncio.timeout(self._environment.timeout_s):
                await environment.end()
        except (Exception, SystemExit) as error:
            return describe(error)
        return None

    async def _end_all(self, patience: float) -> None:
        try:
            async with asyncio.timeout(patience):
                await self._end(list(self._copies))
        except TimeoutError:
            log.warning("end() of an environment was not done within %g s", patience)
