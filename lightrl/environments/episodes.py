"""Episodes side by side in one process: their calls, and a copy of the environment with a random state of its own for each."""

from __future__ import annotations

import copy
import logging
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from lightrl.environments.checked_answers import checked_opening, checked_reply
from lightrl.parts.environment import Environment, declared_extras
from lightrl.prompt import JSON, Prompt
from lightrl.workers.calls import Answer, WrongAnswerError, answered

_FREE: list[Any] = []
"""numpy generators of episodes that are over: to make one takes longer than most calls."""


class EpisodeRandom:
    """The state of one episode, in place of the present one within a `with` block, after which it is kept."""

    __slots__ = ("_generators", "_numpy", "_python", "_seed")

    def __init__(self, seed: int) -> None:
        """`seed`: at least 0 and below 2^32."""
        self._seed = seed
        self._python: Any = None
        self._numpy: Any = None
        self._generators: Any = None

    def __enter__(self) -> None:
        if self._python is None:
            random.seed(self._seed)
        else:
            random.setstate(self._python)
        self._generators = _numpy_random()
        # numpy generators are exchanged, since copying their states is slow
        if self._numpy is not None:
            self._generators.set_bit_generator(self._numpy)
        elif self._generators is not None:
            self._generators.set_bit_generator(_FREE.pop() if _FREE else self._generators.MT19937())
            self._generators.seed(self._seed)

    def __exit__(self, *_: object) -> None:
        self._python = random.getstate()
        # one that was imported in this block is seeded in the next
        if self._generators is not None:
            self._numpy = self._generators.get_bit_generator()

    def give_back(self) -> None:
        """The episode is over."""
        if self._numpy is not None:
            _FREE.append(self._numpy)


@contextmanager
def left_alone() -> Iterator[None]:
    """The generators go on afterwards as if nothing had been drawn."""
    python, generators = random.getstate(), _numpy_random()
    if generators is not None:
        generator, state = generators.get_bit_generator(), generators.get_state(legacy=False)
    try:
        yield
    finally:
        random.setstate(python)
        if generators is not None:
            generators.set_bit_generator(generator)
            generators.set_state(state)


def _numpy_random() -> Any:
    numpy = sys.modules.get("numpy")
    return None if numpy is None else numpy.random


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
        """`environment`: copied for every episode, and never called itself."""
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
            self._failed.discard(call.episode)
            if isinstance(call, Turn):
                raise WrongAnswerError(OVER)
            return None
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


def log_failed_ends(answers: Sequence[Answer]) -> None:
    """Log what `Environment.end` has raised."""
    failures = [answer.error for answer in answers if answer.error is not None]
    if failures:
        log.warning("end() of an environment failed in %d episodes; first: %s", len(failures), failures[0])
