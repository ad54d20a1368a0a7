"""Values that are no parts: pydantic reads each by its declared type, ranges included; a message is one line of ours.

A config keeps them as YAML has them. Paths, sets and records are made from them when the config is built.
"""

from __future__ import annotations

import copy
import functools
import inspect
import json
import math
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import yaml
from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError

from lightrl.arguments import type_name
from lightrl.config.read.refusals import ConfigError
from lightrl.config.read.settings import Item, Text
from lightrl.config.read.yaml_files import parse_yaml
from lightrl.registry.classes import closest

ANYTHING = (Any, object, inspect.Parameter.empty)
"""Types that every value has."""
LARGEST = 2**63
"""No integer of a config is as large: torch, NumPy and files take 64 bits."""


def plain_value(annotation: object, old: object, new: object, key: str, source: str, null: bool = False) -> object:
    """The value of an argument after a setting: an `Item` is added to the list in force, and a mapping laid over it.

    Args:
        null: is the default, so that it is a value though the type is without it, as in libraries.
    """
    if null and _is_null(new):
        return None
    if isinstance(new, Item):
        return checked(annotation, [*(old if isinstance(old, (list, tuple)) else []), parsed(new, key)], key, source)
    if isinstance(new, dict) and isinstance(old, dict):
        return checked(annotation, {**old, **new}, key, source)
    return checked(annotation, new, key, source)


def checked(annotation: object, value: object, key: str, source: str) -> Any:
    """The value in its declared type and range, as YAML has it; a ConfigError if it does not fit, or no run can compute with it."""
    if isinstance(value, dict):
        value = _deep(value, key)
    _check_computable(value, key, source)
    for candidate in _candidates(value):
        try:
            found = _in_type(annotation, candidate)
        except (ValidationError, TypeError):
            continue
        _check_computable(found, key, source)
        return as_yaml(found, annotation)
    expected = type_name(annotation, value)
    if _is_null(value):
        raise ConfigError(key, f"cannot be null: expected {expected}, got None.", f"Given in: {source}")
    shown = f"{value.text if isinstance(value, Text) else value!r:.200}"
    choices = [c for c in get_args(annotation) if isinstance(c, str)] if get_origin(annotation) is Literal else []
    near = closest(value.text if isinstance(value, Text) else str(value), choices) if choices else ""
    raise ConfigError(key, f"expected {expected}, got {shown}.{near}", f"Given in: {source}")


def _is_null(value: object) -> bool:
    return value is None or (isinstance(value, Text) and value.text.strip() in ("null", "~"))


def _candidates(value: object) -> list[object]:
    """The values that one may mean: a text as YAML reads it or, where the type wants a text, as it is; in a file the other way round."""
    text = value.text if isinstance(value, Text) else value
    if not isinstance(text, str):
        return [text]
    try:
        read = parse_yaml(text)
    except yaml.YAMLError:
        return [text]
    if not text.strip() or isinstance(read, str):
        return [text]
    return [read, text] if isinstance(value, Text) else [text, read]


def _in_type(annotation: object, value: object) -> Any:
    """The object of the declared type, read as JSON is: `1` is a float, `"1"` is none, and a list may be a set."""
    return value if annotation in ANYTHING else _adapter(annotation).validate_json(json.dumps(value), strict=True)


@functools.cache
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:
        # a dataclass has a config of its own
        return TypeAdapter(annotation)


def _check_computable(value: object, key: str, source: str) -> None:
    for number in _numbers(value):
        if isinstance(number, int) and not -LARGEST <= number < LARGEST:
            raise ConfigError(key, "expected an integer of 64 bits at most, got one that is larger.", f"Given in: {source}")
        if not math.isfinite(number):
            raise ConfigError(key, f"expected a finite number, got {number}.", f"Given in: {source}")


def _numbers(value: object) -> Iterator[int | float]:
    if isinstance(value, (dict, list, tuple)):
        for member in value.values() if isinstance(value, dict) else value:
            yield from _numbers(member)
    elif isinstance(value, (int, float)):
        yield value


def as_yaml(value: object, annotation: object) -> object:
    """A value of a declared type, for example a default, as YAML has it."""
    return value if _is_json(value) else _adapter(annotation).dump_python(value, mode="json", warnings=False, fallback=str)


def as_object(value: object, annotation: object) -> object:
    """The object that a checked value stands for, such as a path or a set; a value of YAML is a copy of itself."""
    return copy.deepcopy(value) if value is None or not _is_json(value) else _in_type(annotation, copy.deepcopy(value))


def parsed(value: object, key: str) -> Any:
    """A typed value as YAML reads it, or a ConfigError if it is not YAML; any other as it is."""
    if not isinstance(value, Text):
        return value
    try:
        return parse_yaml(value.text)
    except yaml.YAMLError as error:
        raise ConfigError(key, f"bad YAML: {value.text!r}.") from error


def _deep(value: object, key: str) -> object:
    return {name: _deep(part, key) for name, part in value.items()} if isinstance(value, dict) else parsed(value, key)


def _is_json(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True
