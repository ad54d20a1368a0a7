"""The tasks of reasoning-gym by name, level and settings, and their metadata as JSON."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reasoning_gym.dataset import ProceduralDataset


SHARED = ("seed", "size")
"""Settings that every task has, and that the source has arguments for."""


def dataset(task: str, size: int, seed: int, level: int | None, config: Mapping[str, Any]) -> ProceduralDataset:
    """The questions of a task, at a level of its curriculum, with other settings; a ValueError if one of them is unknown or refused."""
    from reasoning_gym.factory import DATASETS

    if task not in DATASETS:
        raise ValueError(f"reasoning-gym has no task {task!r}; {_existing(task, DATASETS)}")
    made, settings = DATASETS[task]
    known = [field.name for field in dataclasses.fields(settings) if field.name not in SHARED]
    unknown = [name for name in config if name not in known]
    if unknown:
        raise ValueError(f"the task {task!r} has no setting {unknown[0]!r} in its config; {_existing(unknown[0], known)}")
    chosen = {} if level is None else _of_level(task, level)
    try:
        return made(settings(**{**chosen, **config, "size": size, "seed": seed}))
    except (AssertionError, TypeError, ValueError) as error:
        raise ValueError(f"the task {task!r} refuses level={level} with config={dict(config)}: {error}") from error


def _of_level(task: str, level: int) -> dict[str, Any]:
    """The settings of a level, by name."""
    from reasoning_gym.factory import CURRICULA

    if task not in CURRICULA:
        raise ValueError(f"the task {task!r} has no curriculum, so leave level out and give its settings in config")
    curriculum = CURRICULA[task]()
    highest = max(len(attribute.levels) for attribute in curriculum.attributes.values()) - 1
    if not 0 <= level <= highest:
        raise ValueError(f"the task {task!r} has the levels 0 to {highest}, got level={level}")
    curriculum.set_global_level(level)
    made = curriculum.generate_configuration()
    return {field.name: getattr(made, field.name) for field in dataclasses.fields(made) if field.name not in SHARED}


def _existing(name: str, names: Sequence[str] | Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, list(names), n=3)
    hint = f"near it: {', '.join(near)}; " if near else ""
    return f"{hint}there are: {', '.join(sorted(names))}"


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
