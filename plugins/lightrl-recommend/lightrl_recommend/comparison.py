"""Differences of algorithms, read from the parts of each: nothing here knows an algorithm by name."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from lightrl import Advantage, Algorithm
from lightrl.config import Builder, Choice, distribution_of, documentation, stated_by

QUESTIONS = {
    "models": "models in memory",
    "completions": "completions per prompt",
    "advantage": "advantage",
    "kl": "KL",
    "clip": "ratio and clipping",
    "aggregation": "aggregation",
    "without_signal": "groups of equal rewards",
    "length_bias": "a token of a long completion",
    "best_for": "best for",
}
"""The columns: field of `Facts` and heading."""


@dataclass(frozen=True)
class Facts:
    """How one algorithm answers each of the `QUESTIONS`."""

    algorithm: str
    distribution: str
    """The package that brought it."""
    models: str
    """What is held in memory beside optimizer states; a reward model would come on top."""
    completions: str
    """Of the sampler."""
    advantage: str
    """The part, and its first sentence."""
    kl: str
    """Estimator, place, coefficient."""
    clip: str
    """Level of the ratio, and the scheme with its bounds."""
    aggregation: str
    """What a token weighs."""
    without_signal: str
    """What becomes of a group whose completions all scored the same."""
    length_bias: str
    """What it weighs beside one of a short completion, of the same step."""
    best_for: str
    """As the algorithm states it."""


def facts_of(cls: type[Algorithm]) -> Facts:
    """The facts of an algorithm with its own defaults."""
    stated = stated_by(cls)
    with warnings.catch_warnings():
        # warnings of an algorithm concern those who run it
        warnings.simplefilter("ignore")
        algorithm: Algorithm = Builder().build(stated, "")
    critic = [] if algorithm.critic is None else ["critic" if algorithm.critic.own_trunk else "value head"]
    return Facts(
        algorithm=cls.__name__,
        distribution=distribution_of(cls),
        models=", ".join(["policy", *critic, *algorithm.references]),
        completions=str(algorithm.sampler.group_size),
        advantage=f"{stated.value('advantage')}. {documentation(type(algorithm.advantage)).summary.rstrip('.')}",
        kl=_kl(algorithm),
        clip=_clip(algorithm, stated),
        aggregation=str(stated.value("aggregation")),
        without_signal=_without_signal(algorithm),
        length_bias="weighs less (1 / its length)" if algorithm.aggregation.divides_by_row_length else "weighs as much",
        best_for=algorithm.best_for,
    )


def _kl(algorithm: Algorithm) -> str:
    kl = algorithm.kl
    places = {} if kl is None else {"loss": kl.loss_coefficient, "reward": kl.reward_coefficient}
    used = [f"{coefficient:g} in the {place}" for place, coefficient in places.items() if coefficient]
    if kl is None or not used:
        return "none"
    estimator = getattr(kl, "estimator", type(kl).__name__)
    moved = ", adaptive" if getattr(kl, "controller", None) is not None else ""
    return f"{estimator} to the {'reference' if kl.against == 'reference' else 'old policy'}, {' and '.join(used)}{moved}"


def _clip(algorithm: Algorithm, stated: Choice) -> str:
    level = "completion" if algorithm.ratio.row_constant or algorithm.clip.row_constant else "token"
    part: Choice = stated.value("clip")
    bounds = {name: part.value(name) for name in part.takes if part.value(name) is not None}
    scheme = str(Choice(part.cls, part.slot, bounds))
    return f"per {level}, {scheme}" if algorithm.clip.bounded else f"none ({scheme})"


def _without_signal(algorithm: Algorithm) -> str:
    if algorithm.sampler.zero_variance != "keep":
        return f"sampler: {algorithm.sampler.zero_variance}"
    if not algorithm.advantage.compares:
        return "as any other"
    if type(algorithm.advantage).commit is not Advantage.commit:
        return "against earlier rollouts of the prompt"
    kl = algorithm.kl is not None and (algorithm.kl.loss_coefficient > 0 or algorithm.kl.reward_coefficient > 0)
    others = [name for name, acts in (("KL", kl), ("entropy", "entropy" in algorithm.loss_terms)) if acts]
    return f"gradient from {' and '.join(others)} alone" if others else "no gradient"
