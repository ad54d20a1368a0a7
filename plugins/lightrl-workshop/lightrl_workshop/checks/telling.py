"""An environment that gives the extras which an algorithm reads and none of its parts leaves."""

from __future__ import annotations

from collections.abc import Sequence

from lightrl.algorithms.algorithm import Algorithm
from lightrl.algorithms.extras import unmet
from lightrl.parts.base import PerToken
from lightrl.parts.environment import Reply, SingleTurn, declared_extras
from lightrl.parts.reference import Reference
from lightrl_workshop.toy import small_digits


class Telling(SingleTurn):
    """Ends an episode after a turn, and says the share of small digits in it under every name that an algorithm reads."""

    def __init__(self, extras: Sequence[str] = (), turn_extras: Sequence[str] = ()) -> None:
        """
        Args:
            extras: names of numbers of the episode.
            turn_extras: names of numbers of the turn.
        """
        super().__init__()
        self.gives, self.gives_per_turn = frozenset(extras), frozenset(turn_extras)

    def reply(self, completion: str) -> Reply:
        """See `Environment.reply`."""
        return Reply(done=True, extras=dict.fromkeys(declared_extras(self), small_digits(completion)))


def lacking(algorithm: Algorithm) -> dict[str, list[str]]:
    """The arguments of a `Telling` that gives the extras which an algorithm reads and none of its parts leaves."""
    missing = [(part, name) for part, names in unmet(algorithm, algorithm.sampler.gives).items() for name in names]
    of_turns = {name for part, name in missing if isinstance(name, PerToken)}
    return {"extras": sorted({name for _, name in missing} - of_turns), "turn_extras": sorted(of_turns)}


def writes_prompts(algorithm: Algorithm) -> bool:
    """Whether a reference of the algorithm reads prompts of its own, of any characters."""
    return any(type(reference).contexts is not Reference.contexts for reference in algorithm.references.values())
