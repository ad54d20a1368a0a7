"""`--KEY.help [NAME]`: the classes that a slot takes, and the arguments of one of them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from typing import Any

from jsonargparse import ArgumentParser

from lightrl.arguments import Slot, arguments_of
from lightrl.config.describe.choice import Choice
from lightrl.config.describe.class_lookup import class_named, known
from lightrl.config.read.refusals import ConfigError
from lightrl.ranges import rule
from lightrl.registry.classes import closest


def print_class_help(verb: str, asked: Iterable[tuple[tuple[str, ...], str | None]], sections: dict[str, Choice]) -> None:
    """Print help for every key that was asked about: the class of this name or, with None, the names that there are."""
    for path, name in asked:
        key = ".".join(path)
        slot = _slot_at(sections, path)
        if slot.shape not in ("part", "parts", "factory"):
            raise ConfigError(key, "holds a plain value and has no classes to show.", f"See: lightrl {verb} --help")
        if name is None:
            sys.stdout.write(f"{key} holds one of: {known(slot)}\nSee: lightrl {verb} --{key}.help NAME\n")
        else:
            _print_class(class_named(slot, name, key), key, slot)


def _slot_at(sections: dict[str, Choice], path: tuple[str, ...]) -> Slot:
    if len(path) < 2 or path[0] not in sections:
        raise ConfigError(".".join(path), "only keys of model and data hold parts.", "Type for example: --model.algorithm.help GRPO")
    holder: Any = sections[path[0]]
    slot = Slot("plain", Any)
    for depth, name in enumerate(path[1:], 2):
        if isinstance(holder, dict):
            slot, holder = slot.item, holder.get(name)
            continue
        if not isinstance(holder, Choice):
            hint = "Choose one before it on the command line, or give a config: --config grpo_sort"
            raise ConfigError(".".join(path[:depth]), "no class is chosen here, so its arguments are not known.", hint)
        if name not in holder.takes:
            raise ConfigError(".".join(path[:depth]), f"{holder.cls.__name__} has no argument {name!r}.{closest(name, holder.takes)}")
        slot, holder = holder.takes[name].slot, holder.value(name)
        if slot.shape == "parts" and holder is None:
            holder = {}
    return slot


def _print_class(cls: type[Any], key: str, slot: Slot) -> None:
    sys.stdout.write(f"{cls.__name__} ({cls.__module__})\n\n{inspect.getdoc(cls) or ''}\n\n")
    parser = ArgumentParser(prog=f"--{key}", usage=f"--{key} {cls.__name__} [--{key}.ARGUMENT VALUE ...]", add_help=False)
    skip: set[str | int] = {slot.supplied} if slot.supplied else set()
    parser.add_class_arguments(cls, key, skip=skip, fail_untyped=False)
    parser.print_help()
    sys.stdout.write(stated_ranges(cls))


def stated_ranges(cls: type[Any]) -> str:
    """A line with the range of each argument that has one; nothing if there is none."""
    rules = [rule(argument.slot.annotation, argument.name) for argument in arguments_of(cls).values()]
    found = ", ".join(one for one in rules if one)
    return f"Ranges: {found}\n" if found else ""
