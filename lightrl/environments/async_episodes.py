"""An event loop with the copies of an environment whose episodes run in it."""

from __future__ import annotations

import asyncio
import copy
import logging
import time
from collections.abc import Sequence

from lightrl.environments.checked_answers import checked_opening, checked_reply
from lightrl.environments.episodes import OVER, Begin, Call, End, Turn, log_failed_ends
from lightrl.environments.history import History
from lightrl.parts.environment import AsyncEnvironment, declared_extras
from lightrl.prompt import JSON
from lightrl.workers.calls import Answer, WrongAnswerError, failed
from lightrl.workers.event_loop import CallLoop, in_time

log = logging.getLogger(__name__)


class EpisodeLoop(CallLoop[Call]):
    """Makes at most `concurrency` calls at a time; a loop that stands still leaves its episodes to another."""

    def __init__(self, environment: AsyncEnvironment, history: History | None = None) -> None:
        """`environment`: copied for every episode, with its `timeout_s` and `concurrency`."""
        self._environment, self._history = environment, history or History()
        self._copies: dict[int, AsyncEnvironment] = {}
        self._under_way: dict[asyncio.Task[None], int] = {}
        self._room = asyncio.Semaphore(environment.concurrency)
        self._blocked_by: int | None = None
        super().__init__("environment loop")

    async def answer(self, calls: Sequence[Call], answers: dict[int, Answer]) -> None:
        async with asyncio.TaskGroup() as group:
            for place, call in enumerate(calls):
                if place not in answers:
                    task = group.create_task(self._answer_one(place, call, answers))
                    self._under_way[task] = call.episode
                    task.add_done_callback(self._under_way.pop)

    async def farewell(self, patience_s: float) -> None:
        """End all episodes, in half of the time."""
        answers: dict[int, Answer] = {}
        try:
            async with asyncio.timeout(patience_s / 2):
                await self.answer([End(episode) for episode in self._copies], answers)
            log_failed_ends(list(answers.values()))
        except TimeoutError:
            log.warning("end() of an environment was not done within %g s", patience_s / 2)

    def method(self, call: Call) -> str:
        return "begin()" if isinstance(call, Begin) else "reply()" if isinstance(call, Turn) else "end()"

    def successor(self) -> EpisodeLoop:
        # known only as long as the loop stands still
        task = asyncio.current_task(self.loop)
        by_name = {under_way.get_name(): episode for under_way, episode in list(self._under_way.items())}
        self._blocked_by = None if task is None else by_name.get(task.get_name())
        return EpisodeLoop(self._environment, self._history.elsewhere())

    def blocked_by(self, call: Call) -> bool:
        return self._blocked_by in (None, call.episode)

    def fail(self, call: Call) -> None:
        self._history.fail(call.episode)

    async def _answer_one(self, place: int, call: Call, answers: dict[int, Answer]) -> None:
        if isinstance(call, End):
            self._history.drop(call.episode)
            async with self._room:
                answers[place] = await self._timed(call)
            return
        own: dict[int, Answer] = {}
        async with self._room:
            while not own:
                for step in self._history.steps([call], own):
                    answer = await self._timed(step.call)
                    self._history.note(step, answer, own)
                    if answer.error is not None:
                        break
        answers[place] = own[0]

    async def _timed(self, call: Call) -> Answer:
        started, limit = time.perf_counter(), self._environment.timeout_s
        try:
            value = await in_time(lambda: self._made(call), limit)
        except Exception as error:
            return failed(error, time.perf_counter() - started, limit)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # something that the environment itself waited for was cancelled
            return failed(error, time.perf_counter() - started)
        return Answer(value, seconds=time.perf_counter() - started)

    async def _made(self, call: Call) -> JSON:
        if isinstance(call, Begin):
            environment = copy.deepcopy(self._environment)
            said = await environment.begin(call.prompt, call.seed)
            self._copies[call.episode] = environment
            return checked_opening(said)
        if isinstance(call, Turn):
            if call.episode not in self._copies:
                raise WrongAnswerError(OVER)
            environment = self._copies[call.episode]
            return checked_reply(await environment.reply(call.completion), declared_extras(environment))
        if call.episode in self._copies:
            await self._copies.pop(call.episode).end()
        return None
