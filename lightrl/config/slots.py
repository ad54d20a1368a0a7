"""The slot of an argument, read from its type: it holds a part, several parts by name, a factory, a record, or a plain value."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin

from lightrl.kinds import KINDS
from lightrl.ranges import bare, is_ranged, members_of, rule

Shape = Literal["part", "parts", "factory", "record", "plain"]


@dataclasses.dataclass(frozen=True)
class Slot:
    """The place of an argument, and the values that it takes."""

    shape: Shape
    """`part`: one class with its arguments; `parts`: a dictionary of them; `factory`: a class that is given its first
    arguments later (an optimizer); `record`: a dataclass; `plain`: anything else."""
    annotation: object
    """The type as declared."""
    base: type[Any] | None = None
    """The base class of every class that may be named here; of a record, the dataclass."""
    kind: str | None = None
    """The title of the kind in `KINDS`, if plugins register such classes."""
    optional: bool = False
    """null is allowed."""
    supplied: int = 0
    """Of a factory: how many leading arguments are given later."""

    @property
    def item(self) -> Slot:
        """The slot of one entry of `parts`; null removes the entry."""
        return dataclasses.replace(self, shape="part", optional=True)


def slot_of(annotation: object) -> Slot:
    """The slot of an argument with this type."""
    members = [a for a in members_of(annotation) if a is not type(None)]
    optional = len(members) < len(members_of(annotation))
    if len(members) != 1:
        return Slot("plain", annotation, optional=optional)
    (only,) = members
    if get_origin(only) is dict and get_args(only)[0] is str and (kind := kind_of(get_args(only)[1])):
        return Slot("parts", annotation, get_args(only)[1], kind, optional)
    if get_origin(only) is Callable:
        return _factory(annotation, only, optional)
    if not inspect.isclass(only) or get_origin(only) is not None:
        return Slot("plain", annotation, optional=optional)
    if kind := kind_of(only):
        return Slot("part", annotation, only, kind, optional)
    if dataclasses.is_dataclass(only):
        return Slot("record", annotation, only, None, optional)
    return Slot("plain", annotation, optional=optional)


def kind_of(annotation: object) -> str | None:
    """The kind of part that a type stands for, if it is one."""
    if not inspect.isclass(annotation) or get_origin(annotation) is not None:
        return None
    return next((title for title, base in _bases().items() if issubclass(annotation, base)), None)


def is_simple(annotation: object) -> bool:
    """The type is made of Python's own: no class is to be built for it."""
    if get_origin(annotation) is Literal:
        return True
    annotation = bare(annotation)
    if members := get_args(annotation):
        return all(is_simple(member) for member in members)
    return not inspect.isclass(annotation) or annotation.__module__ in ("builtins", "pathlib", "datetime")


def classes_in(annotation: object) -> list[type[Any]]:
    """The classes in a type that are not Python's own, each once."""
    if inner := [c for member in get_args(annotation) for c in classes_in(member)]:
        return list(dict.fromkeys(inner))
    return [annotation] if inspect.isclass(annotation) and not is_simple(annotation) else []


def type_name(annotation: object, value: object = None) -> str:
    """A type in the words of a message, which may be about a value that does not have it."""
    if get_origin(annotation) is Literal:
        return " or ".join(repr(value) for value in get_args(annotation))
    if len(members_of(annotation)) > 1:
        return " or ".join("null" if m is type(None) else type_name(m, value) for m in members_of(annotation))
    if is_ranged(annotation):
        return rule(annotation, type_name(bare(annotation)), value)
    annotation = bare(annotation)
    return annotation.__name__ if inspect.isclass(annotation) and not get_args(annotation) else str(annotation).replace("typing.", "")


def _factory(annotation: object, only: object, optional: bool) -> Slot:
    arguments = get_args(only)
    made = [m for m in members_of(arguments[1]) if inspect.isclass(m)] if len(arguments) == 2 else []
    if not made or not isinstance(arguments[0], list):
        return Slot("plain", annotation, optional=optional)
    return Slot("factory", annotation, made[0], kind_of(made[0]), optional, len(arguments[0]))


@functools.cache
def _bases() -> dict[str, type[Any]]:
    return {title: kind.base_class for title, kind in KINDS.items() if kind.is_part}
