"""An event loop with the copies of an environment whose episodes run in it."""

from __future__ import annotations

import asyncio
import copy
import logging
import time
from collections.abc import Awaitable, Sequence
from concurrent.futures import Future
from dataclasses import replace

from lightrl.environments.calls import Begin, Call, End, Turn
from lightrl.environments.checked_answers import WrongAnswerError, checked_opening, checked_reply
from lightrl.environments.episodes import OVER
from lightrl.environments.history import History
from lightrl.environments.pending import log_failed_ends, log_failed_ends_later
from lightrl.parts.environment import AsyncEnvironment, declared_extras
from lightrl.prompt import JSON
from lightrl.workers.calls import Answer, describe
from lightrl.workers.in_time import in_time
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

    async def answer(self, calls: Sequence[Call], answers: dict[int, Answer]) -> None:
        """Make the calls that have no answer yet, and put each answer into its place."""
        async with asyncio.TaskGroup() as group:
            for place, call in enumerate(calls):
                if place not in answers:
                    task = group.create_task(self._answer_one(place, call, answers))
                    self._under_way[task] = call.episode
                    task.add_done_callback(self._under_way.pop)

    def end_episodes(self, episodes: Sequence[int]) -> Future[list[Answer]]:
        """Let copies give back what they hold, without waiting for it."""
        future = self.thread.run(self._end(episodes))
        future.add_done_callback(log_failed_ends_later)
        return future

    def abandon(self) -> None:
        """Stop it as soon as it runs, and note which episode blocks it."""
        self.abandoned = True
        task = asyncio.current_task(self.thread.loop)
        by_name = {under_way.get_name(): episode for under_way, episode in list(self._under_way.items())}
        self.blocked_by = None if task is None else by_name.get(task.get_name())
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
        answer = await self._caught(self._made(call))
        return replace(answer, seconds=time.perf_counter() - started)

    async def _caught(self, call: Awaitable[JSON]) -> Answer:
        try:
            return Answer(await in_time(lambda: call, self._environment.timeout_s))
        except TimeoutError as error:
            return Answer(error=f"no answer within {self._environment.timeout_s:g} s ({describe(error)})", late=True)
        except WrongAnswerError as wrong:
            return Answer(error=str(wrong))
        except Exception as error:
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
        if isinstance(call, Turn):
            environment = self._copies[call.episode]
            return checked_reply(await environment.reply(call.completion), declared_extras(environment))
        await self._copies.pop(call.episode).end()
        return None

    async def _end(self, episodes: Sequence[int]) -> list[Answer]:
        return await asyncio.gather(*map(self._end_one, episodes))

    async def _end_one(self, episode: int) -> Answer:
        self.history.drop(episode)
        if episode not in self._copies:
            return Answer()
        async with self._places:
            return await self._caught(self._made(End(episode)))

    async def _end_all(self, patience: float) -> None:
        try:
            async with asyncio.timeout(patience):
                log_failed_ends(await self._end(list(self._copies)))
        except TimeoutError:
            log.warning("end() of an environment was not done within %g s", patience)
