"""Metadata as JSON and back: scorers compare tuples and look up numbers, which JSON would turn into lists and texts."""

from __future__ import annotations

from typing import Any

TUPLE, ITEMS = "__tuple__", "__items__"


def to_json(value: Any) -> Any:
    """A value as JSON; `{"__tuple__": [...]}` is a tuple and `{"__items__": [[key, value], ...]}` a dict with other keys than texts.

    Raises:
        ValueError: a value that has no such form.
    """
    if isinstance(value, tuple):
        return {TUPLE: [to_json(member) for member in value]}
    if isinstance(value, list):
        return [to_json(member) for member in value]
    if isinstance(value, dict):
        if all(type(key) is str for key in value):
            return {key: to_json(member) for key, member in value.items()}
        return {ITEMS: [[to_json(key), to_json(member)] for key, member in value.items()]}
    if value is None or type(value) in (str, bool, int, float):
        return value
    if isinstance(value, str):
        # a subclass, such as numpy's texts
        return str.__str__(value)
    raise ValueError(f"a value of type {type(value).__name__} is no JSON value: {value!r}")


def from_json(value: Any) -> Any:
    """The inverse of `to_json`."""
    if isinstance(value, list):
        return [from_json(member) for member in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {TUPLE}:
        return tuple(from_json(member) for member in value[TUPLE])
    if value.keys() == {ITEMS}:
        return {from_json(key): from_json(member) for key, member in value[ITEMS]}
    return {key: from_json(member) for key, member in value.items()}
