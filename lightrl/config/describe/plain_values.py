"""Values that are no parts: each is checked against its declared type by itself, so that a message is one line.

A config keeps them as YAML has them. Paths, sets and objects of libraries are made from them when the config is built.
"""

from __future__ import annotations

import copy
import inspect
import json
import math
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import yaml
from jsonargparse import ArgumentError, ArgumentParser, Namespace

from lightrl.arguments import type_name
from lightrl.config.read.refusals import ConfigError
from lightrl.config.read.settings import Item, Text
from lightrl.config.read.yaml_files import parse_yaml
from lightrl.ranges import admits, bare, members_of
from lightrl.registry.closest import closest

AS_IN_YAML = (Any, inspect.Parameter.empty, object, bool, int, float, str, type(None), list, dict)
"""Types whose values are built as they stand."""
LARGEST = 2**63
"""No integer of a config is as large: torch, NumPy and files take 64 bits."""


def plain_value(annotation: object, old: object, new: object, key: str, source: str) -> object:
    """The value of an argument after a setting.

    Args:
        annotation: its declared type.
        old: the value in force before.
        new: a value of a file, or a `Text` as typed; an `Item` is added to the list `old`.
        key: where it stands.
        source: where it was given.

    Raises:
        ConfigError: the value does not have the type.
    """
    if isinstance(new, Item):
        return checked(annotation, [*(old if isinstance(old, (list, tuple)) else []), parsed(new, key)], key, source)
    if isinstance(new, dict) and isinstance(old, dict):
        return checked(annotation, {**old, **new}, key, source)
    return checked(annotation, new, key, source)


def checked(annotation: object, value: object, key: str, source: str) -> Any:
    """The value in its declared type, as YAML has it.

    Raises:
        ConfigError: it does not fit, is outside the range of its type, or is no number that a run can compute with.
    """
    if isinstance(value, dict):
        value = _deep(value, key)
    _refuse_incomputable(value, key, source)
    parser = _parser(annotation)
    try:
        typed = parser.parse_args([f"--value={value.text}"]) if isinstance(value, Text) else parser.parse_object({"value": value})
    except (ArgumentError, ValueError, TypeError, OverflowError) as error:
        raise _unexpected(annotation, value, key, source) from error
    _refuse_incomputable(typed["value"], key, source)
    if not admits(annotation, typed["value"]):
        raise _unexpected(annotation, value, key, source)
    return typed["value"] if _is_json(typed["value"]) else _dumped(parser, typed)


def _unexpected(annotation: object, value: object, key: str, source: str) -> ConfigError:
    problem = f"expected {type_name(annotation, value)}, got {_as_given(value)}.{_near(annotation, value)}"
    return ConfigError(key, problem, f"Given in: {source}")


def _refuse_incomputable(value: object, key: str, source: str) -> None:
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


def takes_null(annotation: object) -> bool:
    """null is a value of the type; jsonargparse takes it for any argument that has not been set."""
    return any(m in (None, type(None), Any, object, inspect.Parameter.empty) or None in get_args(m) for m in members_of(annotation))


def as_yaml(value: object, annotation: object) -> object:
    """A value of a declared type, for example a default, as YAML has it."""
    return value if _is_json(value) else _dumped(_parser(annotation), Namespace(value=value))


def as_object(value: object, annotation: object) -> object:
    """The object that a checked value stands for: a path, a set, an object of a library; a value of YAML is a copy of itself."""
    if any(type(value) is member for member in members_of(bare(annotation))) or _all_as_in_yaml(annotation):
        return copy.deepcopy(value)
    parser = _parser(annotation)
    return parser.instantiate(parser.parse_object({"value": value}))["value"]


def parsed(value: object, key: str) -> Any:
    """A typed value as YAML reads it; any other as it is.

    Raises:
        ConfigError: it is not YAML.
    """
    if not isinstance(value, Text):
        return value
    try:
        return parse_yaml(value.text)
    except yaml.YAMLError as error:
        raise ConfigError(key, f"bad YAML: {value.text!r}.") from error


def _parser(annotation: object) -> ArgumentParser:
    parser = ArgumentParser(exit_on_error=False)
    # a range has its own message
    parser.add_argument("--value", type=Any if annotation is inspect.Parameter.empty else bare(annotation))
    return parser


def _dumped(parser: ArgumentParser, typed: Namespace) -> object:
    return yaml.safe_load(parser.dump(typed, skip_unset=False))["value"]


def _near(annotation: object, value: object) -> str:
    choices = [c for c in get_args(annotation) if isinstance(c, str)] if get_origin(annotation) is Literal else []
    return closest(value.text if isinstance(value, Text) else str(value), choices) if choices else ""


def _as_given(value: object) -> str:
    return f"{value.text if isinstance(value, Text) else value!r:.200}"


def _deep(value: object, key: str) -> object:
    return {name: _deep(part, key) for name, part in value.items()} if isinstance(value, dict) else parsed(value, key)


def _all_as_in_yaml(annotation: object) -> bool:
    if get_origin(annotation) is Literal:
        return True
    annotation = bare(annotation)
    inner = get_args(annotation)
    outer = get_origin(annotation) if inner and len(members_of(annotation)) == 1 else None
    return all(map(_all_as_in_yaml, inner)) and outer in (None, list, dict) if inner else annotation in AS_IN_YAML


def _is_json(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True
