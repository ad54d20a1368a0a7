"""A question that wants one judgement: the form of its reply, how the reply is read, and what the judge is sent if it cannot be."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from lightrl import without_thoughts
from lightrl_judge.chat import Chat
from lightrl_judge.failures import TooLargeError, UnreadableError, beginning

WORK = 3_000_000
"""Characters that may be read in vain, in beginnings that turn out to be no object: some tenths of a second."""
TRY = 1000
"""Characters that could be read in the time that one vain try takes beside reading."""
_BEGINNING = re.compile(r'\{\s*["}]')
T = TypeVar("T")
LONGEST = 300_000
"""Characters of a reply; no model writes so much before its judgement."""


class TooManyError(ValueError):
    """A text with more beginnings of objects than are tried."""


@dataclass(frozen=True)
class FoundObject:
    """An outermost JSON object in a text."""

    start: int
    end: int
    """The place behind its last."""
    value: dict[str, Any]


def json_objects(text: str) -> list[FoundObject]:
    """Outermost JSON objects of a text, in order, or TooManyError. One in which a key stands twice, or NaN, is none."""
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


def judgement(reply: str, name: str, read: Callable[[Any], T]) -> T:
    """The value of a field in the JSON of a reply.

    JSON objects may stand anywhere outside of thoughts, with other text around them; inside an object `</think>` ends no thoughts. Those
    with the field must agree, and every mention of the field must stand inside an object that can be read: a judge that quotes somebody
    else's `"score": 10` in broken JSON has given no score.

    Raises:
        UnreadableError: there is no such judgement, or more than one.
        TooLargeError: the reply is longer than `LONGEST`.
    """
    if len(reply) > LONGEST:
        # it is not sent back with a complaint either
        raise TooLargeError(f"{len(reply):,} characters, and at most {LONGEST:,} are read, in the reply {beginning(reply)}")
    try:
        objects = json_objects(reply := reply.replace("\0", ""))
    except TooManyError as error:
        raise UnreadableError(f"{error}, in the reply {beginning(reply)}") from error
    # the number of an object stands for it, so that what it quotes ends no thoughts
    gaps = zip([0, *(one.end for one in objects)], [*(one.start for one in objects), len(reply)], strict=True)
    said = without_thoughts("".join(f"{reply[start:end]}\0{i}\0" for i, (start, end) in enumerate(gaps)))
    loose = re.search(rf'"{re.escape(name)}"\s*:', said)
    values = [objects[int(i)].value for i in re.findall("\0(\\d+)\0", said) if int(i) < len(objects)]
    found = [value[name] for value in values if name in value]
    if loose or not found:
        raise UnreadableError(f'{"broken" if loose else "no"} JSON object with "{name}" in the reply {beginning(reply)}')
    try:
        judgements = [read(value) for value in found]
    except ValueError as error:
        raise UnreadableError(f"{error}, in the reply {beginning(reply)}") from error
    if any(other != judgements[0] for other in judgements):
        raise UnreadableError(f'{len(found)} different values of "{name}" in the reply {beginning(reply)}')
    return judgements[0]


@dataclass(frozen=True)
class Form(Generic[T]):
    """A JSON object with one field that matters."""

    name: str
    wanted: str
    """The content that the judge is asked to put there."""
    schema: dict[str, Any]
    read: Callable[[Any], T]
    """From the field's JSON value to the judgement; raises ValueError for what is none."""

    @property
    def response_format(self) -> dict[str, Any]:
        """The request that makes a server force replies into this form: first the reason, then the field."""
        schema = {
            "type": "object",
            "properties": {"reason": {"type": "string"}, self.name: self.schema},
            "required": ["reason", self.name],
            "additionalProperties": False,
        }
        return {"type": "json_schema", "json_schema": {"name": self.name, "strict": True, "schema": schema}}

    def complaint(self, error: UnreadableError) -> str:
        """The message to a judge whose reply could not be read."""
        return f'That reply cannot be read: {error}. Reply with nothing but the JSON object {{"{self.name}": {self.wanted}}}.'


async def ask(chat: Chat, system: str, user: str, form: Form[T], ask_again: int = 0, structured: bool = False) -> T:
    """One judgement, or the JudgeError or UnavailableError why there is none; an unreadable reply is sent back `ask_again` times."""
    messages = [*([{"role": "system", "content": system}] if system else []), {"role": "user", "content": user}]
    while True:
        reply = await chat.reply(messages, form.response_format if structured else None)
        try:
            return judgement(reply, form.name, form.read)
        except UnreadableError as error:
            if ask_again == 0:
                # JSON within the reply may spell the key in another way
                raise UnreadableError(chat.key.redact(str(error))) from None
            ask_again -= 1
            messages = [*messages, {"role": "assistant", "content": reply}, {"role": "user", "content": form.complaint(error)}]
