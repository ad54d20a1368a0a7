"""A choice: a class and the arguments that were given to it; a resolved config is a tree of them."""

from __future__ import annotations

import dataclasses
import functools
import sys
from typing import Any

from lightrl.arguments import Argument, Slot, arguments_of, type_name
from lightrl.config.describe.plain_values import as_yaml
from lightrl.config.read.refusals import ConfigError
from lightrl.import_path import imported
from lightrl.parts.base import Part, made_with
from lightrl.parts.description import as_config, parts_in


@dataclasses.dataclass
class Choice:
    """A class that the config names (or that is the default) with the arguments that differ from its own defaults."""

    cls: type[Any]
    """The class."""
    slot: Slot
    """Its place in the config."""
    arguments: dict[str, Any] = dataclasses.field(default_factory=dict)
    """By name: a `Choice`, a dictionary of them, or a plain value as YAML has it."""
    source: str | None = None
    """The file or the command line that named the class; None if it is a default."""
    sources: dict[str, str] = dataclasses.field(default_factory=dict)
    """By argument: the file or the command line that gave it last; arguments that come with a default are not in it."""
    switched_from: str | None = None
    """The class that a later setting replaced here."""

    @property
    def takes(self) -> dict[str, Argument]:
        """The arguments that the class has."""
        return dict(arguments_of(self.cls, self.slot.supplied))

    def value(self, name: str) -> Any:
        """The argument in force: given, or the default as a choice of its own."""
        return self.arguments[name] if name in self.arguments else default_of(self.takes[name])

    def as_config(self) -> dict[str, Any]:
        """The choice as a config file has it, with every default written out."""
        takes = self.takes
        known = [name for name in takes if name in self.arguments or not takes[name].required]
        given = {name: value_as_config(self.value(name), takes[name].slot) for name in known}
        if self.slot.shape == "record":
            return given
        path = exported_path(self.cls) if self.slot.shape == "factory" else f"{self.cls.__module__}.{self.cls.__qualname__}"
        return {"class_path": path} | ({"init_args": given} if takes else {})

    def __str__(self) -> str:
        given = ", ".join(f"{name}={shown(value)}" for name, value in self.arguments.items())
        return f"{self.cls.__name__}({given})" if given or self.slot.shape == "record" else self.cls.__name__


def default_of(argument: Argument) -> Any:
    """The default of an argument: a `Choice` where the slot holds a class, else the value.

    A part is read by the arguments that it was made with; an optimizer is a `functools.partial`, or what jsonargparse reads in a lambda.
    """
    slot, default = argument.slot, argument.default
    if argument.required:
        return None
    if slot.shape == "factory" and isinstance(default, functools.partial) and isinstance(default.func, type):
        return Choice(default.func, slot, dict(default.keywords))
    if slot.shape == "factory" and isinstance(default, dict):
        return Choice(imported(default["class_path"]), slot, dict(default.get("init_args", {})))
    if slot.shape == "record" and dataclasses.is_dataclass(default) and slot.base is not None:
        return Choice(slot.base, slot, {f.name: getattr(default, f.name) for f in dataclasses.fields(default)})
    return _given(slot, default, argument.name) if isinstance(default, (Part, dict, list)) else default


def value_as_config(value: object, slot: Slot) -> object:
    """A value in force as a config file has it: choices with every default, plain values as YAML has them."""
    if isinstance(value, Choice):
        return value.as_config()
    if slot.shape == "parts" and isinstance(value, dict):
        return {name: value_as_config(part, slot.item) for name, part in value.items()}
    return as_yaml(value, slot.annotation)


def exported_path(cls: type[Any]) -> str:
    """The path under which a library exports a class: `torch.optim.AdamW`, not `torch.optim.adamw.AdamW`."""
    parts = cls.__module__.split(".")
    homes = [".".join(parts[:n]) for n in range(1, len(parts))]
    home = next((h for h in homes if h in sys.modules and vars(sys.modules[h]).get(cls.__qualname__) is cls), cls.__module__)
    return f"{home}.{cls.__qualname__}"


def shown(value: object) -> str:
    """A value as a line of output shows it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {shown(part)}" for name, part in value.items()) + "}"
    return "null" if value is None else str(value) if isinstance(value, (Choice, str)) else repr(value)


def _given(slot: Slot, value: object, key: str = "") -> Any:
    """A default as a choice; a ConfigError if parts stand where a config can name none, in the argument with this key."""
    if isinstance(value, Part):
        takes, given, of = arguments_of(type(value), slot.supplied), made_with(value), type(value).__name__
        if unknown := sorted(given.keys() - takes.keys()):
            raise ConfigError(f"{of}.{unknown[0]}", "a default gives it, and a config cannot: name the argument in the signature.")
        return Choice(type(value), slot, {name: _given(takes[name].slot, made, f"{of}.{name}") for name, made in given.items()})
    if slot.shape == "parts" and isinstance(value, dict):
        return {name: _given(slot.item, part) for name, part in value.items()}
    if any(parts_in(value, "")):
        problem = f"a default has parts in it, and a config can name none in an argument of the type {type_name(slot.annotation)}."
        raise ConfigError(key, problem, "Let the argument take one part, or parts by name: `dict[str, Advantage]`")
    return as_config(value)
