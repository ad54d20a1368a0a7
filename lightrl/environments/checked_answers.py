"""Answers of environments, checked where they are made and turned into JSON values; what is wrong fails the episode."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence, Set

from lightrl.parts.environment import Reply
from lightrl.prompt import JSON, Message
from lightrl.workers.calls import WrongAnswerError

LARGEST_TEXT = 1_000_000
"""Characters that one answer may have, those of its state included."""
LARGEST_NUMBER = 3.4028234663852886e38
"""A reward or an extra beyond it is infinite in the f32 tensor that holds it."""


def checked_opening(said: object) -> str | list[Message]:
    """The opening of an episode; a WrongAnswerError if it is neither a text nor messages, or too long."""
    opening = _said("begin()", said)
    _check_size("begin()", opening, None)
    if not isinstance(opening, str) and not opening:
        raise WrongAnswerError("begin() returned no message, and the policy needs something to answer")
    return opening


def checked_reply(reply: object, extras: Set[str] = frozenset()) -> list[JSON]:
    """The members of a reply.

    Args:
        extras: names that the environment declares.

    Raises:
        WrongAnswerError: a member has the wrong type, or is not finite, or too long; an extra is not declared; or an episode that goes on
            gets no text.
    """
    if not isinstance(reply, tuple) or len(reply) != len(Reply._fields):
        raise WrongAnswerError(f"reply() returned {_shown(reply)}, expected a Reply({', '.join(Reply._fields)})")
    said, reward, done, state, counts, numbers = reply
    checked: list[JSON] = [
        _said("reply().said", said),
        None if reward is None else _number("reply().reward", reward),
        _done(done),
        None if state is None else _mapping("reply().state", state),
        None if counts is None else _numbers("reply().counts", _mapping("reply().counts", counts)),
        None if numbers is None else _extras(numbers, extras),
    ]
    if not checked[2] and not checked[0]:
        raise WrongAnswerError("reply() told the policy nothing, and the episode goes on: say something, or set done")
    _check_size("reply()", checked[0], checked[3])
    return checked


def _said(where: str, said: object) -> str | list[Message]:
    if isinstance(said, str):
        return _text(where, said)
    if not isinstance(said, (list, tuple)):
        raise WrongAnswerError(f"{where} returned {_shown(said)}, expected a text or a list of messages")
    messages = []
    for message in said:
        fits = isinstance(message, Mapping) and {"role", "content"} <= set(message)
        if not fits or not all(isinstance(part, str) for pair in message.items() for part in pair) or not message["role"]:
            raise WrongAnswerError(f'{where} has the message {_shown(message)}, expected {{"role": "user", "content": "..."}}')
        # templates may want more of a message: the name of a tool, the id of a call
        messages.append({_text(where, name): _text(where, part) for name, part in message.items()})
    return messages


def _text(where: str, text: str) -> str:
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise WrongAnswerError(f"{where} has half of a surrogate pair, which is no character: decode bytes with errors='replace'")
    return text


def _number(where: str, value: object) -> float:
    number = _unwrapped(value)
    if not isinstance(number, (bool, int, float)):
        raise WrongAnswerError(f"{where} is {_shown(value)}, expected a number")
    if not abs(number) <= LARGEST_NUMBER:
        raise WrongAnswerError(f"{where} is {number}, expected a finite number")
    return float(number)


def _extras(given: object, declared: Set[str]) -> dict[str, float]:
    extras = _mapping("reply().extras", given)
    if unknown := sorted(extras.keys() - declared):
        raise WrongAnswerError(
            f"reply().extras has {', '.join(map(repr, unknown))}, and the class declares {', '.join(sorted(declared)) or 'none'}: have it "
            "in gives for a number of the episode, or in gives_per_turn for one of the turn"
        )
    return _numbers("reply().extras", extras)


def _numbers(where: str, values: Mapping[str, object]) -> dict[str, float]:
    return {name: _number(f"{where}[{name!r}]", value) for name, value in values.items()}


def _done(done: object) -> bool:
    plain = _unwrapped(done)
    if not isinstance(plain, bool):
        raise WrongAnswerError(f"reply().done is {_shown(done)}, expected True or False")
    return plain


def _mapping(where: str, value: object) -> dict[str, JSON]:
    if not isinstance(value, Mapping):
        raise WrongAnswerError(f"{where} is {_shown(value)}, expected a mapping or None")
    if wrong := [name for name in value if not isinstance(name, str)]:
        raise WrongAnswerError(f"{where} has the name {_shown(wrong[0])}, expected a text")
    return {name: _json(f"{where}[{name!r}]", member) for name, member in value.items()}


def _json(where: str, value: object) -> JSON:
    plain = _unwrapped(value)
    if plain is None or isinstance(plain, (str, bool, int)) or (isinstance(plain, float) and math.isfinite(plain)):
        return plain
    if isinstance(plain, Mapping):
        return _mapping(where, plain)
    if isinstance(plain, Sequence) and not isinstance(plain, (bytes, bytearray)):
        return [_json(f"{where}[{place}]", member) for place, member in enumerate(plain)]
    raise WrongAnswerError(f"{where} is {_shown(value)}, expected a JSON value")


def _unwrapped(value: object) -> object:
    # numpy's numbers are welcome without this file importing numpy
    item = getattr(value, "item", None)
    return item() if callable(item) and getattr(value, "ndim", None) == 0 else value


def _check_size(where: str, said: str | list[Message], state: JSON) -> None:
    size = len(said) if isinstance(said, str) else sum(len(part) for message in said for part in message.values())
    size += 0 if state is None else len(json.dumps(state))
    if size > LARGEST_TEXT:
        raise WrongAnswerError(f"{where} returned {size:,} characters, and at most {LARGEST_TEXT:,} are taken")


def _shown(value: object) -> str:
    return f"{type(value).__name__} {repr(value)[:60]}"
