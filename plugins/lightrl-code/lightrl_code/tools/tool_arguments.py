"""Arguments of a call: JSON values that become values of the types that the tool declares."""

from __future__ import annotations

import copy
import inspect
import types
from collections.abc import Mapping
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin

from lightrl_code.tools.tool_calls import JSON, ToolCall, read_json, shown
from lightrl_code.tools.tool_function import ToolFunction, choices_of

EXACT = 2**53
"""Up to it a float is the integer that was written."""


class WrongArguments(ValueError):  # noqa: N818 - what it is reads better without a suffix
    """Arguments that the tool cannot be called with; the message is for the policy."""


def named_arguments(tool: ToolFunction, call: ToolCall) -> dict[str, JSON]:
    """The arguments of a call by name, as it wrote them; WrongArguments if one is missing, unknown or given twice."""
    names = tool.parameters
    if len(call.positional) > len(names):
        raise WrongArguments(f"{tool.name} takes {_list(names)}, got {len(call.positional)} arguments")
    by_position = dict(zip(names, call.positional, strict=False))
    for name in call.arguments:
        if name not in names:
            raise WrongArguments(f"{tool.name} has no argument {name!r}; it takes {_list(names)}")
        if name in by_position:
            raise WrongArguments(f"{tool.name} got its argument {name!r} twice")
    given = {**by_position, **call.arguments}
    missing = [name for name, required in names.items() if required and name not in given]
    if missing:
        raise WrongArguments(f"{tool.name} needs {_list(missing)}")
    return given


def typed_arguments(tool: ToolFunction, schema: Mapping[str, JSON], given: Mapping[str, JSON], spelled: bool) -> dict[str, object]:
    """Arguments as the tool declares them, or WrongArguments; of `spelled` texts those that do not fit as they are are read as JSON."""
    hints, typed = tool.hints, {}
    for name, value in given.items():
        try:
            typed[name] = copy.deepcopy(_of_text(value, hints[name]) if spelled else converted(value, hints[name]))
        except (TypeError, OverflowError) as error:
            wanted = inspect.formatannotation(hints[name])
            raise WrongArguments(f"{tool.name} needs {name!r} as {wanted}, got {shown(value)}") from error
        choices = choices_of(schema, name)
        plain = typed[name].value if isinstance(typed[name], Enum) else typed[name]
        # null has no place among the choices of `X | None`
        if choices is not None and plain is not None and plain not in choices:
            raise WrongArguments(f"{tool.name} needs {name!r} as one of {_list(choices)}, got {shown(value)}")
    return typed


def converted(value: JSON, hint: Any) -> Any:
    """A JSON value as a value of a type that tools may have; a TypeError if it is none, an OverflowError if too large for a float."""
    origin = get_origin(hint) or hint
    if origin is Any:
        return value
    if origin in (Union, types.UnionType):
        return _first(value, get_args(hint))
    if origin is Literal:
        return _equal(value, {literal: literal for literal in get_args(hint)})
    if isinstance(origin, type) and issubclass(origin, Enum):
        return _equal(value, {member.value: member for member in origin})
    if origin in (list, tuple, dict):
        return _container(value, origin, get_args(hint))
    return _scalar(value, origin)


def _scalar(value: JSON, kind: object) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    # 1e2 is an integer in JSON, and beyond EXACT the digits would be made up
    if kind is int and isinstance(value, float) and value.is_integer() and abs(value) <= EXACT:
        return int(value)
    # a bool is an int in Python, and none in JSON
    if type(value) is kind or (value is None and kind is type(None)):
        return value
    raise TypeError


def _container(value: JSON, kind: type, members: tuple[Any, ...]) -> Any:
    if kind is dict and isinstance(value, dict):
        return {_key(key, members[0]): converted(item, members[1]) for key, item in value.items()} if members else value
    if kind is dict or not isinstance(value, list):
        raise TypeError
    if kind is list:
        return [converted(item, members[0]) for item in value] if members else value
    if members and len(members) != len(value):
        raise TypeError
    return tuple(converted(item, member) for item, member in zip(value, members, strict=True)) if members else tuple(value)


def _key(key: JSON, hint: Any) -> Any:
    # JSON has no other keys than texts
    return _of_text(key, hint) if isinstance(key, str) else converted(key, hint)


def _first(value: JSON, members: tuple[Any, ...]) -> Any:
    # a value that has a type of the union already keeps it: 3 is no 3.0 for `float | int`
    for member in sorted(members, key=lambda member: type(value) is not member):
        try:
            return converted(value, member)
        except (TypeError, OverflowError):
            continue
    raise TypeError


def _equal(value: JSON, choices: Mapping[Any, Any]) -> Any:
    for plain, choice in choices.items():
        if type(plain) is type(value) and plain == value:
            return choice
    raise TypeError


def _of_text(text: str, hint: Any) -> Any:
    try:
        return converted(text, hint)
    except TypeError:
        try:
            value, rest = read_json(text)
        except ValueError as error:
            raise TypeError from error
        if rest.strip():
            raise TypeError from None
        return converted(value, hint)


def _list(names: Any) -> str:
    return ", ".join(map(repr, names)) or "no arguments"
