"""The calls of an episode, and what is answered to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lightrl.parts.environment import Reply, Said
from lightrl.prompt import Prompt
from lightrl.workers.calls import Answer


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


@dataclass(frozen=True)
class EpisodeAnswer:
    """The answer of an environment to one call."""

    said: Said | None = None
    """Of `begin`: the opening."""
    reply: Reply | None = None
    """Of `reply`."""
    error: str | None = None
    """Why the episode has failed, in one line; None if it has not."""
    late: bool = False
    """It has failed because the time was up."""
    seconds: float = 0.0
    """Wall-clock seconds of the call."""


def episode_answer(call: Call, answer: Answer) -> EpisodeAnswer:
    """The answer in the words of environments.

    Args:
        call: that was made.
        answer: with a checked value, or an error.
    """
    if answer.error is not None:
        return EpisodeAnswer(error=answer.error, late=answer.late, seconds=answer.seconds)
    if isinstance(call, Begin):
        return EpisodeAnswer(said=answer.value, seconds=answer.seconds)
    return EpisodeAnswer(reply=Reply(*answer.value) if isinstance(call, Turn) else None, seconds=answer.seconds)
