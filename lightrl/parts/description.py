"""Parts as defaults: each describes the part that every instance makes for itself, and is itself used by nobody."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TypeVar

from lightrl.parts.base import Part, copied, made_with

P = TypeVar("P", bound=Part)


def describe(part: Part, key: str) -> None:
    """Remember that a default at a key such as `DAPO.clip`, and each part within it, describes a part; a ValueError if another one too."""
    if described_by(part).partition(".")[2] == key.partition(".")[2]:
        return
    for path, inner in parts_in(part, key):
        if other := described_by(inner):
            raise ValueError(_shared(path, other))
        object.__setattr__(inner, "_describes", path)


def describe_defaults(cls: type[object]) -> None:
    """Let the parts that are defaults in a constructor describe what instances make with `own`; a ValueError if two share one."""
    for name, parameter in inspect.signature(cls.__init__).parameters.items():
        if isinstance(parameter.default, Part):
            describe(parameter.default, f"{cls.__name__}.{name}")


def own(part: P, key: str) -> P:
    """A part that is made anew if it describes one, else the part itself, at a key; a ValueError if one within describes another."""
    if described_by(part):
        return part.but()
    for path, inner in parts_in(part, key):
        if other := described_by(inner):
            raise ValueError(_shared(path, other))
    return part


def described_by(part: Part) -> str:
    """The key of what a part describes, as `DAPO.clip`; empty if it is an ordinary part."""
    return str(vars(part).get("_describes", ""))


def as_config(value: object) -> object:
    """A part as a config has it, `class_path` and `init_args`, with the parts in its arguments; other values as a copy."""

    def of_part(part: Part) -> object:
        cls = type(part)
        arguments = {name: as_config(argument) for name, argument in made_with(part).items()}
        return {"class_path": f"{cls.__module__}.{cls.__qualname__}"} | ({"init_args": arguments} if arguments else {})

    return copied(value, of_part)


def parts_in(value: object, key: str) -> Iterator[tuple[str, Part]]:
    """A part and every part in its arguments, each with its key."""
    if isinstance(value, Part):
        yield key, value
        for name, argument in made_with(value).items():
            yield from parts_in(argument, f"{key}.{name}")
    elif isinstance(value, dict):
        for name, member in value.items():
            yield from parts_in(member, f"{key}.{name}")
    elif isinstance(value, (list, tuple)):
        for member in value:
            yield from parts_in(member, key)


def _shared(key: str, other: str) -> str:
    return (
        f"{key} is the part that describes {other}, and no instance would ask it: every instance makes a part of its own for each slot. "
        f"Write a new one here, or {other}.but()"
    )
