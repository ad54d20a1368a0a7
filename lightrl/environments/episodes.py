"""Episodes side by side in one process: their calls, and a copy of the environment with a random state of its own for each."""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from typing import NamedTuple

from lightrl.environments.checked_answers import checked_opening, checked_reply
from lightrl.environments.random_state import EpisodeRandom
from lightrl.parts.environment import Environment, declared_extras
from lightrl.prompt import JSON, Prompt
from lightrl.workers.calls import Answer, WrongAnswerError, answered

log = logging.getLogger(__name__)

OVER = "the episode has failed before, or was never begun"


class Begin(NamedTuple):
    """The first call of an episode."""

    episode: int
    """Number of the episode, which no other under way has."""
    prompt: Prompt
    """The prompt."""
    seed: int
    """At least 0 and below 2^31."""


class Turn(NamedTuple):
    """A turn of the policy."""

    episode: int
    """Number of the episode."""
    completion: str
    """The decoded turn."""


class End(NamedTuple):
    """The last call of an episode."""

    episode: int
    """Number of the episode."""


Call = Begin | Turn | End


class Episodes:
    """Makes the calls of episodes, in any order; an exception or a wrong answer ends its episode."""

    def __init__(self, environment: Environment) -> None:
        """
        Args:
            environment: copied for every episode, and never called itself.
        """
        self._environment = environment
        self._copies: dict[int, tuple[Environment, EpisodeRandom]] = {}
        self._failed: set[int] = set()

    @property
    def open(self) -> list[int]:
        """Numbers of the episodes that were begun and not ended."""
        return list(self._copies)

    def perform(self, call: Call) -> Answer:
        """Make one call."""
        answer = answered(lambda: self._made(call))
        if answer.error is not None:
            self._failed.add(call.episode)
        return answer

    def _made(self, call: Call) -> JSON:
        if isinstance(call, Begin):
            return self._begun(call)
        if call.episode not in self._copies:
            return self._absent(call)
        if isinstance(call, Turn):
            return self._replied(call)
        self._failed.discard(call.episode)
        environment, random = self._copies.pop(call.episode)
        try:
            with random:
                environment.end()
        finally:
            random.give_back()
        return None

    def _begun(self, call: Begin) -> JSON:
        environment, random = copy.deepcopy(self._environment), EpisodeRandom(call.seed)
        with random:
            said = environment.begin(call.prompt, call.seed)
        self._copies[call.episode] = environment, random
        return checked_opening(said)

    def _replied(self, call: Turn) -> JSON:
        if call.episode in self._failed:
            raise WrongAnswerError(OVER)
        environment, random = self._copies[call.episode]
        with random:
            reply = environment.reply(call.completion)
        return checked_reply(reply, declared_extras(environment))

    def _absent(self, call: Turn | End) -> None:
        self._failed.discard(call.episode)
        if isinstance(call, Turn):
            raise WrongAnswerError(OVER)


def log_failed_ends(answers: Sequence[Answer]) -> None:
    """Log what `Environment.end` has raised."""
    failures = [answer.error for answer in answers if answer.error is not None]
    if failures:
        log.warning("end() of an environment failed in %d episodes; first: %s", len(failures), failures[0])
