"""Laying one setting over the earlier ones: a later one wins, and every value that it drops is reported."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from typing import Any

from lightrl.arguments import Argument, Slot, arguments_of
from lightrl.config.describe.choice import Choice, default_of, shown, value_as_config
from lightrl.config.describe.class_lookup import class_named, known
from lightrl.config.describe.plain_values import parsed, plain_value
from lightrl.config.read.refusals import ConfigError, Problems, check_argument
from lightrl.config.read.settings import Item, Text, undotted
from lightrl.import_path import ImportPathError, imported
from lightrl.parts.function import Function


class Merger:
    """Lays settings from one source after another over choices, collects what is wrong, and notes the values that a switch drops."""

    def __init__(self) -> None:
        self.problems = Problems()
        """An argument that is refused keeps its value, and the others are laid."""
        self.notes: list[str] = []
        """One line per key that a later setting made void."""

    def arguments(self, choice: Choice, given: object, key: str, source: str) -> None:
        """Set arguments of a class that has been chosen; those that are unknown, or whose values are, are among the problems.

        Raises:
            ConfigError: what is given is no mapping.
        """
        if not isinstance(given, dict):
            raise ConfigError(key, f"the arguments of {choice.cls.__name__} are a mapping, got {shown(given)}.", f"Given in: {source}")
        takes = choice.takes
        for name, value in undotted(given, key).items():
            with self.problems.collected(f"{key}.{name}"):
                check_argument(choice.cls.__name__, name, takes, key, source)
                choice.arguments[name] = self._merged(takes[name], choice.value(name), value, f"{key}.{name}", source)
                choice.sources[name] = source

    def _merged(self, argument: Argument, old: Any, new: object, key: str, source: str) -> object:
        slot = argument.slot
        if slot.shape == "plain":
            return plain_value(slot.annotation, old, new, key, source, null=argument.default is None)
        new = _untyped(new, key)
        if slot.shape == "parts":
            return self._parts(slot, old, new, key, source)
        return self._one(slot, old, new, key, source)

    def _parts(self, slot: Slot, old: dict[str, Choice] | None, new: object, key: str, source: str) -> dict[str, Choice] | None:
        if new is None and slot.optional:
            return None
        if not isinstance(new, dict):
            example = f"Type for example: --{key}.NAME {known(slot).split(', ')[0]}"
            raise ConfigError(key, f"expected a mapping of names to {slot.title}s, got {shown(new)}.", example)
        parts = dict(old or {})
        for name, value in undotted(new, key).items():
            part = self._one(slot.item, parts.get(name), _untyped(value, f"{key}.{name}"), f"{key}.{name}", source)
            if part is None:
                parts.pop(name, None)
            else:
                parts[name] = part
        return parts

    def _one(self, slot: Slot, old: Choice | None, new: object, key: str, source: str) -> Choice | None:
        if new is None:
            if not slot.optional:
                raise ConfigError(key, f"cannot be null: it holds one of {known(slot)}.", f"Given in: {source}")
            return None
        if slot.kind == "reward":
            new = reward_in_full(old, new)
        name, given = split(new, key, source)
        choice = self._chosen(slot, old, name, key, source)
        if given:
            self.arguments(choice, given, key, source)
        return choice

    def _chosen(self, slot: Slot, old: Choice | None, name: object, key: str, source: str) -> Choice:
        if slot.shape == "record" and slot.base is not None:
            if name is not None:
                problem = f"expected a mapping of {', '.join(arguments_of(slot.base))}, got {shown(name)}."
                raise ConfigError(key, problem, f"Given in: {source}")
            return copy.deepcopy(old) if old is not None else Choice(slot.base, slot)
        if name is None and old is not None:
            return copy.deepcopy(old)
        if name is None:
            example = f"Type for example: --{key} {known(slot).split(', ')[0]}"
            raise ConfigError(key, f"no class is chosen here. Known: {known(slot)}.", example)
        if not isinstance(name, str):
            raise ConfigError(key, f"expected the name of a class, got {shown(name)}. Known: {known(slot)}.", f"Given in: {source}")
        cls = class_named(slot, name, key)
        if old is not None and old.cls is cls:
            return Choice(cls, slot, copy.deepcopy(old.arguments), source, dict(old.sources), old.switched_from)
        choice = Choice(cls, slot, source=source)
        if old is not None:
            self._drop(old, choice, key)
        return choice

    def _drop(self, old: Choice, new: Choice, key: str) -> None:
        """Note the arguments of a class that another one replaces; an algorithm keeps those that `_both_have`."""
        if old.sources:
            new.switched_from = old.cls.__name__
        for name, source in old.sources.items():
            value = old.arguments[name]
            if new.slot.kind == "algorithm" and _both_have(name, old, new):
                new.arguments[name], new.sources[name] = copy.deepcopy(value), source
                continue
            was = f"{key}.{name} = {shown(value)} ({source}) was for {old.cls.__name__}"
            self.notes.append(f"dropped: {was}; {new.cls.__name__} has replaced it")


def _both_have(name: str, old: Choice, new: Choice) -> bool:
    """Whether an argument of one algorithm is meant for another: both take it, and do not differ by default where it is a part."""
    was, now = old.takes[name], new.takes.get(name)
    if now is None or now.annotation != was.annotation:
        return False
    own, theirs, given = (value_as_config(value, now.slot) for value in (default_of(now), default_of(was), old.arguments[name]))
    return now.slot.shape == "plain" or own in (theirs, given)


def carried(model: Choice) -> Iterator[str]:
    """One line per key of the model's algorithm that is in force after the algorithm was switched."""
    chosen = model.arguments.get("algorithm")
    if isinstance(chosen, Choice) and chosen.switched_from is not None:
        for name, source in chosen.sources.items():
            value = f"model.algorithm.{name} = {shown(chosen.arguments[name])} ({source})"
            yield f"carried: {value} is in force after the switch from {chosen.switched_from} to {chosen.cls.__name__}"


def split(new: object, key: str, source: str) -> tuple[object, dict[str, object]]:
    """A value as class name (None: the one in force) and arguments."""
    if not isinstance(new, dict):
        return new, {}
    new = undotted(new, key)
    if "class_path" not in new and "init_args" not in new:
        return None, new
    if extra := sorted(set(new) - {"class_path", "init_args"}):
        problem = "stands beside class_path, where only init_args may stand: put it under init_args."
        raise ConfigError(f"{key}.{extra[0]}", problem, f"Given in: {source}")
    return _untyped(new.get("class_path"), key), _untyped(new.get("init_args"), key) or {}


def _untyped(value: object, key: str) -> Any:
    """The value typed for a slot that holds classes: a name, null, or a mapping."""
    if isinstance(value, Item):
        raise ConfigError(key, "+= adds to a list, and this is none.")
    if not isinstance(value, Text):
        return value
    return parsed(value, key) if value.text.lstrip().startswith("{") or value.text in ("null", "~", "None") else value.text


def reward_in_full(old: Choice | None, new: object) -> object:
    """The value with `Function` written out where the shorthand was used; anything else as it is."""
    if isinstance(new, str) and "." in new and ":" not in new and not _is_class(new):
        return _function({"path": new})
    if isinstance(new, dict) and "class_path" not in new and "path" in new and not (old is not None and "path" in old.takes):
        return _function(new)
    return new


def _function(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"class_path": f"{Function.__module__}.{Function.__qualname__}", "init_args": arguments}


def _is_class(path: str) -> bool:
    try:
        return inspect.isclass(imported(path))
    except ImportPathError:
        # Function says why, with the key, when it is built
        return False
