"""The place where the episodes of an environment run, so that none of them can hang or spoil a run."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from lightrl.environments.checked_answers import checked_opening, checked_reply
from lightrl.environments.episodes import OVER, Begin, Call, End, Episodes, Turn, left_alone, log_failed_ends
from lightrl.environments.history import History
from lightrl.parts.environment import AsyncEnvironment, Environment, Reply, Said, SingleTurn, declared_extras, own_opening
from lightrl.prompt import JSON, Prompt
from lightrl.workers.calls import Answer, Done, Inline, Pending, Place, Shares, WrongAnswerError
from lightrl.workers.error_budget import ErrorBudget
from lightrl.workers.event_loop import CallLoop, answer_of, in_time
from lightrl.workers.loop_place import LoopPlace
from lightrl.workers.process_ends import CLOSE_TIMEOUT_S
from lightrl.workers.process_place import ProcessPlace
from lightrl.workers.program import WorkerProgram

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EpisodeAnswer(Answer):
    """The answer of an environment to one call; its episode has failed if the call has."""

    said: Said | None = None
    """Of `begin`: the opening."""
    reply: Reply | None = None
    """Of `reply`."""


class PendingAnswers:
    """Answers of an environment, while they are waited for."""

    def __init__(self, calls: Sequence[Call], pending: Pending) -> None:
        self._calls, self._pending = calls, pending

    def result(self) -> list[EpisodeAnswer]:
        """Wait for them: one answer per call, in order; a RuntimeError if a worker process cannot load the environment."""
        return [_of_episode(call, answer) for call, answer in zip(self._calls, self._pending.result(), strict=True)]


def _of_episode(call: Call, answer: Answer) -> EpisodeAnswer:
    returned = answer.error is None
    said = answer.value if returned and isinstance(call, Begin) else None
    reply = Reply(*answer.value) if returned and isinstance(call, Turn) else None
    return EpisodeAnswer(**vars(answer), said=said, reply=reply)


class EpisodeHost:
    """Runs the episodes of one environment: inline, in worker processes, or in an event loop, as the class says."""

    def __init__(self, environment: Environment) -> None:
        """
        Raises:
            ValueError: it runs in no known way.
        """
        self.environment = environment
        self.budget = ErrorBudget(environment.max_error_rate, environment.error_window, "episodes")
        """Counts the episodes, and those that have failed."""
        self._place = place_of(environment)

    def start(self) -> None:
        """Get ready in the background."""
        self._place.start()

    def begin(self, episodes: Sequence[tuple[int, Prompt, int]]) -> PendingAnswers:
        """Begin episodes: of each its number, its prompt and its seed. Two with one number are a ValueError."""
        return self._submit([Begin(*episode) for episode in episodes])

    def reply(self, turns: Sequence[tuple[int, str]]) -> PendingAnswers:
        """Say what the policy has said: of each episode its number and the completion. Two with one number are a ValueError."""
        return self._submit([Turn(*turn) for turn in turns])

    def end(self, episodes: Sequence[int]) -> PendingAnswers:
        """Drop episodes; never waits for a worker and never raises, what the environment raises is logged."""
        ends = [End(episode) for episode in episodes]
        pending = self._place.submit(ends) if self._place.started else Done([Answer()] * len(ends))
        pending.when_done(log_failed_ends)
        return PendingAnswers(ends, pending)

    def close(self) -> None:
        """End processes and threads, and with them all episodes; they start again when they are needed."""
        self._place.close()

    def _submit(self, calls: Sequence[Call]) -> PendingAnswers:
        if len({call.episode for call in calls}) != len(calls):
            raise ValueError("two of these calls are of the same episode: an episode answers one call after the other")
        return PendingAnswers(calls, self._place.submit(calls))


def place_of(environment: Environment) -> Place:
    """The place where the calls of an environment are made, by its `runs`."""
    if type(environment) is SingleTurn:
        return Unanswered()
    if isinstance(environment, AsyncEnvironment):
        return LoopPlace(lambda: EpisodeLoop(environment), environment.timeout_s)
    if environment.runs == "process":
        return ProcessEpisodes(environment)
    if environment.runs == "inline":
        return InlineEpisodes(environment)
    raise ValueError(
        f"{type(environment).__name__} runs {environment.runs!r}, expected inline or process; what awaits is a subclass of AsyncEnvironment"
    )


ENDED = Answer(Reply(done=True))


class Unanswered(Place):
    """Opens an episode with its prompt, and ends it after a turn."""

    def submit(self, calls: Sequence[Call]) -> Done:
        return Done([Answer(own_opening(call.prompt)) if isinstance(call, Begin) else ENDED for call in calls])


class InlineEpisodes(Inline):
    """Episodes in this process, whose random generators go on as if no environment had drawn from them."""

    def __init__(self, environment: Environment) -> None:
        self._episodes = Episodes(environment)
        super().__init__(self._episodes)

    def submit(self, calls: Sequence[Call]) -> Done:
        with left_alone():
            return super().submit(calls)

    def close(self) -> None:
        self.submit([End(episode) for episode in self._episodes.open]).when_done(log_failed_ends)


class ProcessEpisodes(ProcessPlace):
    """Episodes in worker processes; each stays with one of them, until that has to be killed."""

    def __init__(self, environment: Environment) -> None:
        inline = 'set runs = "inline" in the class'
        program = WorkerProgram(Episodes(environment), environment, "environment", inline, environment.memory_mb)
        super().__init__(program, environment.workers, environment.timeout_s, History)
        self._environment, self._open = environment, set[int]()

    def submit(self, calls: Sequence[Call]) -> Shares:
        """Hand out the calls, at most one of each episode."""
        self._open.update(call.episode for call in calls)
        self._open.difference_update(call.episode for call in calls if isinstance(call, End))
        return super().submit(calls)

    def close(self) -> None:
        """End all processes; environments that give something back have `CLOSE_TIMEOUT_S` seconds for it."""
        if self.started and type(self._environment).end is not Environment.end:
            # workers that nothing is left to do for have earlier ends before them in the queue
            self.submit([End(episode) for episode in sorted(self._open)]).when_done(log_failed_ends)
            self.finish(CLOSE_TIMEOUT_S)
        self._open.clear()
        super().close()


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

    def begun(self, call: Call, task: asyncio.Task[None]) -> None:
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

    async def answer_one(self, call: Call) -> Answer:
        if isinstance(call, End):
            self._history.drop(call.episode)
            async with self._room:
                return await self._timed(call)
        own: dict[int, Answer] = {}
        async with self._room:
            while not own:
                for step in self._history.steps([call], own):
                    answer = await self._timed(step.call)
                    self._history.note(step, answer, own)
                    if answer.error is not None:
                        break
        return own[0]

    async def _timed(self, call: Call) -> Answer:
        limit = self._environment.timeout_s
        return await answer_of(lambda: in_time(lambda: self._made(call), limit), limit)

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
