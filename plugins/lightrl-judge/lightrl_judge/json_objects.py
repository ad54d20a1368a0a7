"""The JSON objects in a text, found in a time that grows with its length and no faster."""

import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

WORK = 3_000_000
"""Characters that may be read in vain, in beginnings that turn out to be no object: some tenths of a second."""
TRY = 1000
"""Characters that could be read in the time that one vain try takes beside reading."""
_BEGINNING = re.compile(r'\{\s*["}]')


class TooManyError(ValueError):
    """A text with more beginnings of objects than are tried."""


@dataclass(frozen=True)
class FoundObject:
    """An outermost JSON object in a text."""

    start: int
    """The place of its first character."""
    end: int
    """The place behind its last."""
    value: dict[str, Any]
    """What it says."""


def json_objects(text: str) -> list[FoundObject]:
    """Outermost JSON objects of a text, in order. One in which a key stands twice, or NaN, is none.

    Raises:
        TooManyError: too much begins as an object does and is none.
    """
    found: list[FoundObject] = []
    work, place = 0, _BEGINNING.search(text)
    while place is not None:
        read = _object(text, place.start())
        if isinstance(read, FoundObject):
            found.append(read)
        else:
            work += TRY + read - place.start()
            if work > WORK:
                raise TooManyError("too many beginnings of JSON objects that are none")
        place = _BEGINNING.search(text, read.end if isinstance(read, FoundObject) else place.start() + 1)
    return found


def outside(objects: Sequence[FoundObject], pattern: str, text: str) -> list[re.Match[str]]:
    """Where a pattern stands in a text outside of its objects.

    Args:
        objects: of the text, in order.
        pattern: a regular expression.
        text: to be searched.
    """
    starts = [one.start for one in objects]

    def within(at: int) -> bool:
        before = bisect_right(starts, at)
        return before > 0 and at < objects[before - 1].end

    return [found for found in re.finditer(pattern, text) if not within(found.start())]


def _object(text: str, start: int) -> FoundObject | int:
    """The object that begins here; if there is none, how far it was looked for."""
    wrong: list[str] = []

    def pairs(given: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(given)
        wrong.extend("a key stands twice" for _ in range(len(given) - len(value)))
        return value

    try:
        value, end = json.JSONDecoder(object_pairs_hook=pairs, parse_constant=wrong.append).raw_decode(text, start)
    except json.JSONDecodeError as error:
        return len(text) if error.msg.startswith("Unterminated") else error.pos
    except (ValueError, RecursionError):
        # an integer of thousands of digits, or brackets that are nested too deeply
        return len(text)
    return end if wrong else FoundObject(start, end, value)
