"""A call that the policy has written, and the helpers of all formats that read one."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

JSON = Any
"""A value that `json.dumps` takes: None, bool, int, float, str, or lists and string-keyed dicts of them."""

TOO_DEEP = "it is nested too deeply"


@dataclass(frozen=True)
class ToolCall:
    """One call in a turn of the policy."""

    name: str = ""
    """The tool; empty if that cannot be read."""
    arguments: Mapping[str, JSON] = field(default_factory=dict)
    positional: tuple[JSON, ...] = ()
    """Arguments by position, which only a format of Python calls has."""
    spelled: bool = False
    """Arguments are texts, whose types only the tool knows."""
    error: str = ""
    """Why the call cannot be read; empty if it can."""


def read_json(text: str) -> tuple[JSON, str]:
    """The JSON value with which a text begins, and what follows it, or a ValueError. Line breaks within strings are let through."""
    text = text.lstrip()
    try:
        value, end = _DECODER.raw_decode(text)
    except RecursionError as error:
        raise ValueError(TOO_DEEP) from error
    return shallow(value), text[end:]


def shallow(value: JSON, most: int = 50) -> JSON:
    """The value itself, or a ValueError beyond `most` levels, since whatever goes through it later may do so by recursion."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if most < 0:
        raise ValueError(TOO_DEEP)
    for member in inner:
        shallow(member, most - 1)
    return value


def json_call(value: JSON) -> ToolCall:
    """The call that an object with `name`, and `arguments` or `parameters`, stands for."""
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return ToolCall(error=f'expected an object with "name" and "arguments", got {shown(value)}')
    return call_of(value["name"], value.get("arguments", value.get("parameters")))


def call_of(name: str, arguments: JSON) -> ToolCall:
    """A call with arguments as a JSON value: an object, a text with one, or null for none."""
    if isinstance(arguments, str):
        return spelled_call(name, arguments)
    if arguments is not None and not isinstance(arguments, dict):
        return ToolCall(name, error=f"expected the arguments of {name!r} as an object, got {shown(arguments)}")
    return ToolCall(name, arguments or {})


def spelled_call(name: str, text: str) -> ToolCall:
    """A call whose arguments are a text with a JSON object; an empty text has none."""
    if not text.strip():
        return ToolCall(name)
    try:
        value, rest = read_json(text)
    except ValueError as error:
        return ToolCall(name, error=f"the arguments of {name!r} are no JSON: {error}")
    if rest.strip():
        return ToolCall(name, error=f"expected nothing behind the arguments of {name!r}, got {shown(rest.strip())}")
    if isinstance(value, str):
        return ToolCall(name, error=f"expected the arguments of {name!r} as an object, got {shown(value)}")
    return call_of(name, value)


def shown(value: JSON, longest: int = 60) -> str:
    """A JSON value in an error text, cut where it is long."""
    text = json.dumps(value)
    return text if len(text) <= longest else text[:longest] + "..."


def _refuse(constant: str) -> JSON:
    raise ValueError(f"{constant} is no JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits[:30]} is too large")
    return number


_DECODER = json.JSONDecoder(strict=False, parse_constant=_refuse, parse_float=_finite)
