"""Reads the reply of a judge."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

from lightrl_judge.failures import TooLargeError, UnreadableError, beginning
from lightrl_judge.json_objects import TooManyError, json_objects, outside

T = TypeVar("T")

THOUGHTS_END = "</think>"
LONGEST = 300_000
"""Characters of a reply; no model writes so much before its judgement."""


def judgement(reply: str, name: str, read: Callable[[Any], T]) -> T:
    """The value of a field in the JSON of a reply.

    JSON objects may stand anywhere behind `</think>`, with other text around them; inside an object `</think>` ends no thoughts. Those
    with the field must agree, and every mention of the field must stand inside an object that can be read: a judge that quotes somebody
    else's `"score": 10` in broken JSON has given no score.

    Args:
        reply: the judge's.
        name: of the field.
        read: from the JSON value to the judgement; raises ValueError for what is none.

    Raises:
        UnreadableError: there is no such judgement, or more than one.
        TooLargeError: the reply is longer than `LONGEST`.
    """
    if len(reply) > LONGEST:
        # it is not sent back with a complaint either
        raise TooLargeError(f"{len(reply):,} characters, and at most {LONGEST:,} are read, in the reply {beginning(reply)}")
    try:
        objects = json_objects(reply)
    except TooManyError as error:
        raise UnreadableError(f"{error}, in the reply {beginning(reply)}") from error
    thoughts = outside(objects, THOUGHTS_END, reply)
    said = thoughts[-1].end() if thoughts else 0
    loose = [one for one in outside(objects, rf'"{re.escape(name)}"\s*:', reply) if one.start() >= said]
    found = [one.value[name] for one in objects if one.start >= said and name in one.value]
    if loose or not found:
        raise UnreadableError(f'{"broken" if loose else "no"} JSON object with "{name}" in the reply {beginning(reply)}')
    try:
        judgements = [read(value) for value in found]
    except ValueError as error:
        raise UnreadableError(f"{error}, in the reply {beginning(reply)}") from error
    if any(other != judgements[0] for other in judgements):
        raise UnreadableError(f'{len(found)} different values of "{name}" in the reply {beginning(reply)}')
    return judgements[0]
