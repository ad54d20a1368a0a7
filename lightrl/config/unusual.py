"""Numbers of a config that are possible and absurd: a note says so, and the run goes on."""

from __future__ import annotations

from collections.abc import Iterator

from lightrl.config.choice import Choice
from lightrl.ranges import usual


def unusual(value: object, key: str) -> Iterator[str]:
    """One line for each number that was given and is outside the range that its argument calls usual.

    Args:
        value: a choice, or several by name.
        key: where it stands.
    """
    if isinstance(value, dict):
        for name, part in value.items():
            yield from unusual(part, f"{key}.{name}")
    if isinstance(value, Choice):
        for name in value.arguments:
            yield from unusual(value.arguments[name], f"{key}.{name}")
            expected, number = usual(value.takes[name].slot.annotation), value.arguments[name]
            if expected is not None and isinstance(number, (int, float)) and number not in expected:
                yield f"unusual: {key}.{name} is {number:g}; values from {expected.low:g} to {expected.high:g} are usual"
