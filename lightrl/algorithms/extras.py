"""Requirements of parts on each other: extras, each left by one before another reads it, and references, by their slots."""

from __future__ import annotations

from collections.abc import Container, Set
from typing import TYPE_CHECKING

from lightrl.parts.base import Part, PerToken, extras_of
from lightrl.parts.environment import Environment, declared_extras
from lightrl.parts.output import OLD, ROLLOUT, Comparison
from lightrl.parts.step_part import StepPart

if TYPE_CHECKING:
    from lightrl.algorithms.algorithm import Algorithm

GIVEN = "given"
"""The extra `[N]` bool that says which rows somebody else wrote, where a sampler has such rows."""


def givers_of(algorithm: Algorithm, environment: Environment | None = None) -> dict[str, Part]:
    """The part that leaves each extra, by the extra's name; a ValueError if two leave the same, or one has a name of the core."""
    givers = dict[str, Part]()
    told: list[tuple[Part, frozenset[str]]] = [] if environment is None else [(environment, declared_extras(environment))]
    for part, names in [*told, *((part, part.gives) for part in algorithm.parts.values())]:
        for name in sorted(names):
            if name == GIVEN or name.startswith((OLD, ROLLOUT)):
                raise ValueError(
                    f"{type(part).__name__} leaves the extra {name!r}: {GIVEN!r}, and names that begin with {OLD!r} or {ROLLOUT!r}, are "
                    "the core's. Rename it"
                )
            if givers.setdefault(name, part) is not part:
                both = f"{type(givers[name]).__name__} and {type(part).__name__}"
                raise ValueError(f"{both} both leave the extra {name!r}: rename one of them")
    return givers


def unmet(algorithm: Algorithm, there: Set[str]) -> dict[Part, list[str]]:
    """The extras that each part reads and nobody leaves before it, nor the rows of a rollout have; parts with all of theirs left out."""
    early = there | {f"{OLD}{name}" for name in algorithm.old_outputs}
    late = early | givers_of(algorithm).keys() - algorithm.sampler.gives
    found = {}
    for part in algorithm.parts.values():
        of_steps = isinstance(part, StepPart) and part is not algorithm.token_weight
        if missing := sorted(extras_of(part) - (late if of_steps else early)):
            found[part] = missing
    return found


def refuse_missing_extras(algorithm: Algorithm, environment: Environment) -> None:
    """Refuse an algorithm with a part that reads what nobody leaves, or what is left only after it."""
    givers, sampler = givers_of(algorithm, environment), algorithm.sampler
    for part, missing in unmet(algorithm, sampler.gives | declared_extras(environment)).items():
        leaving = ", ".join(f"{name} (of {type(giver).__name__})" for name, giver in sorted(givers.items())) or "none"
        raise ValueError(
            f"{type(part).__name__} needs {', '.join(missing)} for each row, and neither the sampler {type(sampler).__name__} nor the "
            f"environment {type(environment).__name__} leaves that before it; extras are: {leaving}. Use the sampler, or the environment, "
            "that it was written for"
        )
    for part in algorithm.parts.values():
        if wrong := sorted(name for name in part.needs if isinstance(name, PerToken) and name in environment.gives):
            raise ValueError(
                f"{type(part).__name__} reads {', '.join(wrong)} per token, and {type(environment).__name__} gives one number for an "
                "episode: have it in gives_per_turn there, or use another environment"
            )


def logprobs_of(slot: str) -> str:
    """The word by which a part asks for the log-probs of the reference in a slot of its algorithm, such as `teacher_logprobs`."""
    return "ref_logprobs" if slot == "reference" else f"{slot}_logprobs"


def comparisons_of(part: Part) -> list[Comparison]:
    """The outputs of a part that compare the policy with a reference."""
    return [output for output in (*part.outputs, *part.old_outputs) if isinstance(output, Comparison)]


def asked_of(part: Part) -> Container[str]:
    """The slots of the references that a part asks, for log-probs of sampled tokens or for all logits at them."""
    by_logprobs = {"reference" if word == "ref_logprobs" else word.removesuffix("_logprobs") for word in part.needs}
    return by_logprobs | {output.against for output in comparisons_of(part)}
