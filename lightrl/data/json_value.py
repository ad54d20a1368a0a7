"""Whether a value of a table is one that JSON can hold: checkpoints, hashes, logs and processes that score it are given it as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator

from lightrl.types import JSON

DEEPEST = 100
"""Levels of lists and dicts in a value; Python itself gives up at some hundreds."""


def json_value(place: str, column: str, value: object) -> JSON:
    """The value itself.

    Args:
        place: where its row stands, for messages.
        column: where it stands in the row.
        value: of a table.

    Raises:
        ValueError: it is none that JSON can hold.
    """
    if value is None or (isinstance(value, str) and value.isascii()):
        return value
    culprit = next(_culprits(value, DEEPEST), None)
    if culprit is None:
        return value
    raise ValueError(
        f"{place}: column {column!r} holds {culprit}, which is not a JSON value (null, bool, finite number, string, list, "
        "dict with string keys). Name the columns to keep in `columns`, or convert it."
    )


def _culprits(value: object, deepest: int) -> Iterator[str]:
    if isinstance(value, str):
        if not _in_unicode(value):
            yield "a text with half of a surrogate pair"
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield f"a number that is not finite ({value})"
    elif isinstance(value, (list, dict)):
        yield from _inside(value, deepest)
    elif value is not None and not isinstance(value, int):
        yield f"a {type(value).__name__}"


def _in_unicode(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _inside(value: list[object] | dict[object, object], deepest: int) -> Iterator[str]:
    if deepest == 0:
        yield f"a value of more than {DEEPEST} levels"
        return
    for key in value if isinstance(value, dict) else ():
        yield from _culprits(key, 0) if isinstance(key, str) else [f"a dict with a key of type {type(key).__name__}"]
    for part in value.values() if isinstance(value, dict) else value:
        yield from _culprits(part, deepest - 1)
