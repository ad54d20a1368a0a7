"""The arguments that a class takes, those of its ancestors included, and the slot of each.

A slot is read from the type: it holds a part, several parts by name, a factory, a record, or a plain value.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

from jsonargparse import ArgumentParser

from lightrl.kinds import KINDS
from lightrl.parts.base import Part
from lightrl.ranges import bare, is_ranged, members_of, ranges_of, rule

REQUIRED = inspect.Parameter.empty
"""The default of an argument that has none."""
STATED = "_stated_arguments"
"""The attribute of a class that states its arguments itself."""
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
    def title(self) -> str:
        """The name of one of its values in messages."""
        bases = {"Optimizer": "optimizer", "LRScheduler": "learning rate scheduler", "Metric": "metric"}
        name = self.base.__name__ if self.base is not None else "class"
        return self.kind or bases.get(name, name)

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
    if get_origin(only) in (dict, Mapping) and get_args(only)[0] is str and _is_built(item := get_args(only)[1]):
        return Slot("parts", annotation, item, kind_of(item), optional)
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
    return next((title for title, kind in KINDS.items() if kind.is_part and issubclass(annotation, kind.base_class)), None)


def _is_built(annotation: object) -> bool:
    """Whether a value of this type is an object that a config names by its class."""
    if annotation is Any or not inspect.isclass(annotation) or get_origin(annotation) is not None or dataclasses.is_dataclass(annotation):
        return False
    return not is_simple(annotation)


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
    if (holder := get_origin(annotation)) in (dict, list, set, tuple):
        return f"{holder.__name__}[{', '.join(type_name(member) if member is not Ellipsis else '...' for member in get_args(annotation))}]"
    annotation = bare(annotation)
    return annotation.__name__ if inspect.isclass(annotation) and not get_args(annotation) else str(annotation).replace("typing.", "")


def _factory(annotation: object, only: object, optional: bool) -> Slot:
    arguments = get_args(only)
    made = [m for m in members_of(arguments[1]) if inspect.isclass(m)] if len(arguments) == 2 else []
    if not made or not isinstance(arguments[0], list):
        return Slot("plain", annotation, optional=optional)
    return Slot("factory", annotation, made[0], kind_of(made[0]), optional, len(arguments[0]))


@dataclasses.dataclass(frozen=True)
class Argument:
    """One argument of a class."""

    name: str
    """As in the signature, or of the attribute that states it."""
    annotation: object
    """The type as declared."""
    default: Any
    """`REQUIRED` if it must be given."""
    help: str = ""
    """The docstring under the attribute that states it."""

    @functools.cached_property
    def slot(self) -> Slot:
        """The values that it takes; to know it, the base classes of all kinds are imported."""
        return slot_of(self.annotation)

    @functools.cached_property
    def part(self) -> type[Part] | None:
        """The base class of the parts that it takes; None of anything else."""
        return next((m for m in members_of(self.annotation) if isinstance(m, type) and issubclass(m, Part)), None)

    @property
    def required(self) -> bool:
        """There is no default."""
        return self.default is REQUIRED


def arguments_of(cls: type[Any], supplied: int = 0) -> Mapping[str, Argument]:
    """The arguments of a class by name, as in its signature; of a class that states them as attributes, those of its base first."""
    # a class is hashable, which mypy does not see of type[Any]
    key: Any = cls
    return _arguments(key, supplied)


@functools.cache
def _arguments(cls: type[Any], supplied: int) -> Mapping[str, Argument]:
    if (stated := getattr(cls, STATED, None)) is not None:
        found_here: Mapping[str, Argument] = stated
        return found_here
    init = _constructor(cls)
    parameters = [] if init is object.__init__ else list(inspect.signature(init).parameters.values())[1:]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        # jsonargparse reads to whom it hands them on
        added = ArgumentParser().add_class_arguments(cls, "it", skip={supplied} if supplied else set(), fail_untyped=False)
        found = [_inherited(cls, name.removeprefix("it.")) for name in added]
    else:
        found = [_typed(init, p) for p in parameters[supplied:] if p.kind is not p.VAR_POSITIONAL]
    return {p.name: Argument(p.name, _with_range(cls, p), _default(cls, p)) for p in found}


def _constructor(cls: type[Any]) -> Callable[..., object]:
    found: Callable[..., object] = next(vars(base)["__init__"] for base in cls.__mro__ if "__init__" in vars(base))
    return found


def _inherited(cls: type[Any], name: str) -> inspect.Parameter:
    """An argument as the class declares it, or else its nearest ancestor."""
    for base in cls.__mro__:
        init = vars(base).get("__init__")
        if init is not None and name in (parameters := inspect.signature(init).parameters):
            return _typed(init, parameters[name])
    # handed on to a function or read from kwargs: only its name and its default are known
    parser = ArgumentParser()
    parser.add_class_arguments(cls, "it", fail_untyped=False)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=parser.get_defaults()["it"][name], annotation=Any)


def _typed(init: Callable[..., object], parameter: inspect.Parameter) -> inspect.Parameter:
    """The parameter with its type evaluated, where the source has only the name of it."""
    named = isinstance(parameter.annotation, str)
    return parameter.replace(annotation=types_of(init).get(parameter.name, Any)) if named else parameter


def _with_range(cls: type[Any], parameter: inspect.Parameter) -> object:
    """The type of an argument, with the range that an ancestor states for it where the class itself states none."""
    stated = ranges_of(cls).get(parameter.name)
    return stated if stated is not None and bare(stated) == parameter.annotation else parameter.annotation


def _default(cls: type[Any], parameter: inspect.Parameter) -> object:
    """The default, of which jsonargparse reads a lambda that makes an optimizer as class and arguments."""
    if not inspect.isfunction(parameter.default) or parameter.default.__name__ != "<lambda>":
        return parameter.default
    others = set(inspect.signature(_constructor(cls)).parameters) - {parameter.name}
    parser = ArgumentParser()
    parser.add_class_arguments(cls, "it", skip=others, fail_untyped=False)
    read = parser.get_defaults()["it"][parameter.name]
    return read.as_dict() if hasattr(read, "as_dict") else read


@functools.cache
def types_of(function: Callable[..., object]) -> Mapping[str, object]:
    """The type of each argument that is annotated; one whose names cannot be found is `Any`."""
    function = inspect.unwrap(function)
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, AttributeError):
        known = _names_for_type_checkers(function.__module__)
        return {name: _evaluated(annotation, known) for name, annotation in function.__annotations__.items()}


def _evaluated(annotation: object, known: dict[str, object]) -> object:
    try:
        return eval(annotation, known) if isinstance(annotation, str) else annotation
    except (NameError, AttributeError):
        return Any


@functools.cache
def _names_for_type_checkers(module: str) -> dict[str, object]:
    """The names of a module, with those that it imports under `if TYPE_CHECKING`."""
    known = dict(vars(sys.modules[module]))
    for node in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for line in node.body:
                with contextlib.suppress(ImportError):
                    exec(compile(ast.Module([line], []), module, "exec"), known)
    return known
