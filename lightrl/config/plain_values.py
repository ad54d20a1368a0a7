"""Values that are no classes: each is checked against its declared type by itself, so that a message is one line."""

from __future__ import annotations

import inspect
import json
from typing import Any, Literal, get_args, get_origin

import yaml
from jsonargparse import ArgumentError, ArgumentParser

from lightrl.config.errors import ConfigError, closest
from lightrl.config.settings import Item, Text
from lightrl.config.signatures import type_name
from lightrl.config.yaml_files import parse_yaml


def plain_value(annotation: Any, old: Any, new: Any, key: str, source: str) -> Any:
    """What an argument of no particular shape becomes.

    Args:
        annotation: its declared type.
        old: what was in force.
        new: a value of a file, or a `Text` as typed; an `Item` is added to the list `old`.
        key: where it stands.
        source: where it was given.

    Raises:
        ConfigError: the value does not have the type.
    """
    if isinstance(new, Item):
        return checked(annotation, [*(old or []), parsed(new, key)], key, source)
    if isinstance(new, dict) and isinstance(old, dict):
        return checked(annotation, {**old, **new}, key, source)
    return checked(annotation, new, key, source)


def checked(annotation: Any, value: Any, key: str, source: str) -> Any:
    """The value in its declared type.

    Raises:
        ConfigError: it does not fit.
    """
    if isinstance(value, dict):
        value = _deep(value, key)
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--value", type=Any if annotation is inspect.Parameter.empty else annotation)
    try:
        typed = parser.parse_args([f"--value={value.text}"]) if isinstance(value, Text) else parser.parse_object({"value": value})
    except (ArgumentError, ValueError, TypeError) as error:
        raise ConfigError(
            key, f"expected {type_name(annotation)}, got {_as_given(value)}.{_near(annotation, value)}", f"Given in: {source}"
        ) from error
    return typed["value"] if _is_json(typed["value"]) else parsed(value, key)


def _near(annotation: Any, value: Any) -> str:
    choices = [c for c in get_args(annotation) if isinstance(c, str)] if get_origin(annotation) is Literal else []
    return closest(value.text if isinstance(value, Text) else str(value), choices) if choices else ""


def _as_given(value: Any) -> str:
    return repr(value.text if isinstance(value, Text) else value)


def _deep(value: Any, key: str) -> Any:
    return {name: _deep(part, key) for name, part in value.items()} if isinstance(value, dict) else parsed(value, key)


def parsed(value: Any, key: str) -> Any:
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


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True
