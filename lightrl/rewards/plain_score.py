"""What a reward returned, as plain numbers."""

from __future__ import annotations

import math

PlainScore = float | list[float | None] | str | None
"""A number, a list of numbers and gaps, or None; or a text that describes what was returned, if it is nothing of these."""
SHOWN = 60
"""Characters of a wrong value that are shown."""


def plain_score(returned: object) -> PlainScore:
    """The plain form of a score, made where the reward is called: what a value of the reward's own class does to be read happens there.

    An integer that is too large for a float is infinite.

    Args:
        returned: a number, a list or a tuple of numbers, None, or whatever has a `tolist` that gives one of these.
    """
    # numpy and torch values are welcome without this file importing numpy
    to_list = getattr(returned, "tolist", None)
    plain: object = returned if to_list is None else to_list()
    if plain is None or isinstance(plain, (int, float)):
        return None if plain is None else _number(plain)
    if isinstance(plain, (list, tuple)) and all(value is None or isinstance(value, (int, float)) for value in plain):
        return [None if value is None else _number(value) for value in plain]
    return f"{type(returned).__name__} {str(returned)[:SHOWN]!r}"


def _number(value: float) -> float:
    # a subclass may have a float() of its own
    if isinstance(value, float):
        return float.__float__(value)
    exact = int.__index__(value)
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
