"""Episodes side by side in one process: each has a copy of the environment, and a random state of its own."""

from __future__ import annotations

import copy

from lightrl.environments.calls import Begin, Call, End, Turn
from lightrl.environments.checked_answers import WrongAnswerError, checked_opening, checked_reply
from lightrl.environments.random_state import EpisodeRandom
from lightrl.parts.environment import Environment, declared_extras
from lightrl.prompt import JSON
from lightrl.workers.calls import Answer, describe

OVER = "the episode has failed before, or was never begun"


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
        try:
            return Answer(self._made(call))
        except WrongAnswerError as wrong:
            self._failed.add(call.episode)
            return Answer(error=str(wrong))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._failed.add(call.episode)
            return Answer(error=describe(error))

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
