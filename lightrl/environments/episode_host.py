"""The place where the episodes of an environment run, so that none of them can hang or spoil a run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from lightrl.environments.calls import Begin, Call, End, EpisodeAnswer, Turn, episode_answer
from lightrl.environments.episodes import Episodes
from lightrl.environments.pending import Done, Pending, log_failed_ends
from lightrl.environments.random_state import left_alone
from lightrl.parts.environment import AsyncEnvironment, Environment, Reply, SingleTurn, own_opening
from lightrl.prompt import Prompt
from lightrl.workers.calls import Answer
from lightrl.workers.error_budget import ErrorBudget


class Runner(Protocol):
    """Makes the calls of one environment, in its own way."""

    def start(self) -> None:
        """Get ready in the background."""

    def submit(self, calls: Sequence[Call]) -> Pending:
        """Begin with these calls, at most one of each episode, and come back at once where that is possible."""

    def end(self, episodes: Sequence[int]) -> Pending:
        """Drop episodes, log what that raises, and come back at once where that is possible."""

    def close(self) -> None:
        """End everything that was started; a later call starts it again, and knows of no episode."""


class PendingAnswers:
    """Answers of an environment, while they are waited for."""

    def __init__(self, calls: Sequence[Call], pending: Pending) -> None:
        """
        Args:
            calls: that were made.
            pending: their answers.
        """
        self._calls, self._pending = calls, pending

    def result(self) -> list[EpisodeAnswer]:
        """Wait for them: one answer per call, in the order asked.

        Raises:
            RuntimeError: the environment cannot be loaded in its worker process.
        """
        return [episode_answer(call, answer) for call, answer in zip(self._calls, self._pending.result(), strict=True)]


class EpisodeHost:
    """Runs the episodes of one environment: inline, in worker processes, or in an event loop, as the class says."""

    def __init__(self, environment: Environment) -> None:
        """
        Args:
            environment: copied for every episode.

        Raises:
            ValueError: it runs in no known way.
        """
        self.environment = environment
        self.budget = ErrorBudget(environment, "episodes")
        """To be told of every episode whether it has failed."""
        self._runner = runner_of(environment)

    def start(self) -> None:
        """Get ready in the background."""
        self._runner.start()

    def begin(self, episodes: Sequence[tuple[int, Prompt, int]]) -> PendingAnswers:
        """Begin episodes.

        Args:
            episodes: of each its number, its prompt and its seed.

        Raises:
            ValueError: two have the same number.
        """
        return self._submit([Begin(*episode) for episode in episodes])

    def reply(self, turns: Sequence[tuple[int, str]]) -> PendingAnswers:
        """Say what the policy has said.

        Args:
            turns: of each the number of the episode and the completion.

        Raises:
            ValueError: two have the same number.
        """
        return self._submit([Turn(*turn) for turn in turns])

    def end(self, episodes: Sequence[int]) -> PendingAnswers:
        """Drop episodes; never waits for a worker and never raises, what the environment raises is logged.

        Args:
            episodes: their numbers.

        Returns:
            What was answered, which nobody has to wait for.
        """
        return PendingAnswers([End(episode) for episode in episodes], self._runner.end(episodes))

    def close(self) -> None:
        """End processes and threads, and with them all episodes; they start again when they are needed."""
        self._runner.close()

    def _submit(self, calls: Sequence[Call]) -> PendingAnswers:
        if len({call.episode for call in calls}) != len(calls):
            raise ValueError("two of these calls are of the same episode: an episode answers one call after the other")
        return PendingAnswers(calls, self._runner.submit(calls))


def runner_of(environment: Environment) -> Runner:
    """The runner that makes the calls of an environment, by its `runs`."""
    if type(environment) is SingleTurn:
        return Unanswered()
    if isinstance(environment, AsyncEnvironment):
        from lightrl.environments.async_episodes import AsyncEpisodes

        return AsyncEpisodes(environment)
    if environment.runs == "process":
        from lightrl.environments.process_episodes import ProcessEpisodes

        return ProcessEpisodes(environment)
    if environment.runs == "inline":
        return InlineEpisodes(environment)
    raise ValueError(
        f"{type(environment).__name__} runs {environment.runs!r}, expected inline or process; what awaits is a subclass of AsyncEnvironment"
    )


OVER = Answer(Reply(done=True))


class Unanswered:
    """Opens an episode with its prompt, and ends it after a turn."""

    def start(self) -> None:
        """Nothing is needed."""

    def submit(self, calls: Sequence[Call]) -> Done:
        """Answer at once."""
        return Done([Answer(own_opening(call.prompt)) if isinstance(call, Begin) else OVER for call in calls])

    def end(self, episodes: Sequence[int]) -> Done:
        """Nothing is kept."""
        return Done([Answer()] * len(episodes))

    def close(self) -> None:
        """Nothing was started."""


class InlineEpisodes:
    """Makes calls one after another; an exception is caught, but nothing can stop a call that does not return."""

    def __init__(self, environment: Environment) -> None:
        """
        Args:
            environment: copied for every episode.
        """
        self._episodes = Episodes(environment)

    def start(self) -> None:
        """Nothing is needed."""

    def submit(self, calls: Sequence[Call]) -> Done:
        """Make the calls."""
        with left_alone():
            return Done([self._timed(call) for call in calls])

    def end(self, episodes: Sequence[int]) -> Done:
        """Drop episodes."""
        ends = self.submit([End(episode) for episode in episodes])
        log_failed_ends(ends.answers)
        return ends

    def close(self) -> None:
        """End all episodes."""
        self.end(self._episodes.open)

    def _timed(self, call: Call) -> Answer:
        started = time.perf_counter()
        answer = self._episodes.perform(call)
        return replace(answer, seconds=time.perf_counter() - started)
