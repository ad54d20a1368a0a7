"""The weights of parts that are added up."""

from __future__ import annotations

from collections.abc import Mapping


def mixture_weights(
    owner: str, noun: str, parts: Mapping[str, object], stated: Mapping[str, float] | None, example: str
) -> dict[str, float]:
    """The weight of each part by its name; one that is not stated is 1.

    Args:
        owner: class whose argument is checked.
        noun: of the argument, in the plural: `objectives`.
        parts: by name.
        stated: weights by the same names.
        example: of what to write where there is no part.

    Raises:
        ValueError: there is no part, or a weight is negative, of a part that is not there, or all of them are 0.
    """
    weights = stated or {}
    if not parts:
        raise ValueError(f"{owner}.{noun} is empty: name at least one, for example {example}")
    unknown = sorted(set(weights) - set(parts))
    if unknown:
        raise ValueError(f"{owner}.weights names {unknown}, and the {noun} are {', '.join(parts)}")
    if negative := {name: weight for name, weight in weights.items() if not weight >= 0}:
        raise ValueError(f"{owner}.weights must be 0 or more, got {negative}")
    found = {name: float(weights.get(name, 1.0)) for name in parts}
    if not any(found.values()):
        raise ValueError(f"{owner}.weights are all 0, and nothing would be learnt: give one of the {noun} a weight")
    return found
