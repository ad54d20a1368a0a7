"""An algorithm by its name, as a tree of choices and as rows of a table: every slot with the part and the arguments in force."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from lightrl.algorithms.algorithm import Algorithm
from lightrl.algorithms.declaration import slots_of
from lightrl.arguments import Argument, Slot
from lightrl.config.describe.choice import Choice, default_of, shown
from lightrl.config.describe.documentation import documentation
from lightrl.config.read.refusals import ConfigError
from lightrl.kinds import KINDS, Kind
from lightrl.registry.classes import UnknownName, registry

KIND = "algorithm"


def registered() -> list[tuple[str, type[Algorithm]]]:
    """Every registered algorithm with the distribution that brought it, sorted by name."""
    return registry().of_kind(KIND)


def stated_by(cls: type[Algorithm]) -> Choice:
    """An algorithm as its class states it."""
    return Choice(cls, Slot("part", Algorithm, Algorithm, KIND))


def algorithm_named(name: str) -> Choice:
    """The algorithm that a name means, as in a config: `Name`, `distribution:Name` or an import path."""
    try:
        return stated_by(registry().resolve(KIND, name))
    except UnknownName as error:
        raise ConfigError("", str(error)) from error


def part_named(name: str) -> tuple[str, type[Any]] | None:
    """The kind and the class of a part with this name or import path; None if an algorithm, no part, or parts of several kinds have it."""
    found = []
    for kind in KINDS if "." in name else registry().kinds_of(name):
        with suppress(UnknownName):
            found.append((kind, registry().resolve(kind, name)))
    return found[0] if len(found) == 1 and found[0][0] != KIND else None


def kind_named(name: str) -> Kind | None:
    """The kind of part that is meant: by its title, as `plugins new --kind` has it, or by its class; None if there is none."""
    wanted = name.lower().replace("-", " ").replace("_", " ")
    return next((kind for kind in KINDS.values() if wanted == kind.title.lower() or name == kind.base_name), None)


def distribution_of(cls: type[Any]) -> str:
    """The package that registers an algorithm, or else the one it is defined in."""
    return next((d for d, other in registered() if other is cls), cls.__module__.partition(".")[0])


def parts_in(value: object, key: str) -> Iterator[tuple[str, Choice]]:
    """A choice and every choice in its arguments, each with its key."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from parts_in(part, f"{key}.{name}" if key else name)
    if isinstance(value, Choice):
        yield key, value
        for name in value.takes:
            yield from parts_in(value.value(name), f"{key}.{name}" if key else name)


def in_full(value: object) -> str:
    """A part with every argument, those at their default too: `DecoupledClip(low=0.2, high=0.28)`; any other value as it is shown."""
    if not isinstance(value, Choice):
        return shown(value)
    return f"{value.cls.__name__}({arguments(value)})" if value.takes else value.cls.__name__


def arguments(choice: Choice) -> str:
    """Every argument of a part in one line; a required one that nothing gives is `?`."""
    missing = {name for name, argument in choice.takes.items() if argument.required and name not in choice.arguments}
    return ", ".join(f"{name}={'?' if name in missing else in_full(choice.value(name))}" for name in choice.takes)


def default_text(argument: Argument) -> str:
    """The default of an argument, a part with its own arguments; `required` if there is none."""
    return "required" if argument.required else in_full(default_of(argument))


def rows(chosen: Choice) -> Iterator[tuple[str, str, str, str, str]]:
    """Slot, part, arguments, formula and source, for every slot and for parts inside parts; an empty slot has `-`."""
    for slot in [name for name in slots_of(chosen.cls) if name in chosen.takes]:
        value = chosen.value(slot)
        if value is None:
            yield slot, "-", "", "", ""
        for key, part in parts_in(value, slot):
            about = documentation(part.cls)
            yield key, part.cls.__name__, arguments(part), about.formula, about.source
    for name in [name for name in chosen.takes if name not in slots_of(chosen.cls)]:
        value = chosen.value(name)
        yield name, value.cls.__name__ if isinstance(value, Choice) else shown(value), "", "", ""
