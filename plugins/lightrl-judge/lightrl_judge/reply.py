"""Reads the reply of a judge."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from lightrl_judge.failures import UnreadableError, beginning

T = TypeVar("T")

THOUGHTS_END = "</think>"


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
    """
    text = reply[_end_of_thoughts(reply) :]
    objects = _objects(text)
    loose = _outside(objects, rf'"{name}"\s*:', text)
    found = [value[name] for _, _, value in objects if name in value]
    if loose or not found:
        raise UnreadableError(f'{"broken" if loose else "no"} JSON object with "{name}" in the reply {beginning(reply)}')
    try:
        judgements = [read(value) for value in found]
    except ValueError as error:
        raise UnreadableError(f"{error}, in the reply {beginning(reply)}") from error
    if any(other != judgements[0] for other in judgements):
        raise UnreadableError(f'{len(found)} different values of "{name}" in the reply {beginning(reply)}')
    return judgements[0]


def _end_of_thoughts(reply: str) -> int:
    ends = _outside(_objects(reply), THOUGHTS_END, reply)
    return ends[-1].end() if ends else 0


def _outside(objects: Sequence[tuple[int, int, object]], pattern: str, text: str) -> list[re.Match[str]]:
    """Where the pattern stands in the text outside of its objects."""
    return [m for m in re.finditer(pattern, text) if not any(start <= m.start() < end for start, end, _ in objects)]


def _objects(text: str) -> list[tuple[int, int, dict[str, Any]]]:
    """Outermost JSON objects: where each begins, where it ends, and what it is."""
    found, start = [], text.find("{")
    while start >= 0:
        read = _object(text, start)
        if read is not None:
            found.append((start, read[1], read[0]))
        start = text.find("{", start + 1 if read is None else read[1])
    return found


def _object(text: str, start: int) -> tuple[dict[str, Any], int] | None:
    """The object that begins here and where it ends; None if there is none."""
    decoder = json.JSONDecoder(object_pairs_hook=_without_repetition, parse_constant=_refuse)
    try:
        return decoder.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key stands twice in an object")
    return value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
