"""Classes that state their arguments as class attributes: constructor, signature and help follow from them."""

from __future__ import annotations

import ast
import difflib
import functools
import inspect
import linecache
import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import ClassVar, get_origin

from lightrl.arguments import REQUIRED, Argument, arguments_of
from lightrl.parts.base import Part
from lightrl.parts.description import as_config, describe, own
from lightrl.ranges import admits, members_of, rule


class Declared:
    """A class whose annotated attributes are its arguments, each with the docstring under it as help.

    Read on the class, an attribute is the default, where a part stands for the one that every instance makes; read on an instance, it is
    the instance's own. A subclass changes a default by an attribute without annotation, and adds an argument by one with it. What is
    annotated as a `ClassVar` is no argument.
    """

    _stated_arguments: ClassVar[Mapping[str, Argument]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" in vars(cls):
            raise TypeError(
                f"{cls.__name__} defines __init__, and an algorithm gets that from its attributes: state each part as one, "
                "such as `clip = DecoupledClip(low=0.2, high=0.28)`"
            )
        _refuse_undeclared(cls)
        cls._stated_arguments = _stated(cls)
        for name in [name for name in cls._stated_arguments if name in vars(cls)]:
            value, key = vars(cls)[name], f"{cls.__name__}.{name}"
            _check_value(cls._stated_arguments[name], value, cls.__name__)
            if isinstance(value, Part):
                describe(value, key)
        type.__setattr__(cls, "__init__", _constructor(cls))
        if Declared in cls.__bases__:
            # jsonargparse starts from the defaults of a base that can be built, and leaves slots at null that a subclass fills
            missing = frozenset(name for name, argument in cls._stated_arguments.items() if argument.required)
            type.__setattr__(cls, "__abstractmethods__", missing)

    def __init__(self, **values: object) -> None:
        """Take what is given, and make the rest as the class has it.

        Args:
            **values: arguments by name.

        Raises:
            TypeError: the class has no such argument, or one is missing.
            ValueError: the parts cannot work together; the message names both.
        """
        arguments, name = arguments_of(type(self)), type(self).__name__
        if unknown := [key for key in values if key not in arguments]:
            raise TypeError(f"{name} has no argument {unknown[0]!r}.{_closest(unknown[0], arguments)}")
        if missing := [key for key, argument in arguments.items() if argument.required and key not in values]:
            raise TypeError(f"{name} misses {', '.join(missing)}: give it, or state it as a class attribute")
        for key, argument in arguments.items():
            value = values.get(key, argument.default)
            _check_value(argument, value, name)
            setattr(self, key, own(value, f"{name}.{key}") if isinstance(value, Part) else value)
        self._check()

    def _check(self) -> None:
        """Refuse arguments that cannot work together."""


def slots_of(cls: type[Declared]) -> dict[str, type[Part]]:
    """Every slot of an algorithm, those that it adds last, and the kind of part it holds."""
    return {name: argument.part for name, argument in arguments_of(cls).items() if argument.part is not None}


def _check_value(argument: Argument, value: object, owner: str) -> None:
    """Refuse a value that is no part of the kind that the argument takes, or outside its range."""
    if not admits(argument.annotation, value) and value is not REQUIRED:
        raise ValueError(f"{owner} needs {rule(argument.annotation, argument.name, value)}, got {argument.name}={value!r:.60}")
    kind, key = argument.part, f"{owner}.{argument.name}"
    if kind is None or isinstance(value, kind) or (value is None and type(None) in members_of(argument.annotation)):
        return
    if value is None:
        raise ValueError(f"{key} cannot be null: every algorithm has one")
    if isinstance(value, type):
        raise ValueError(f"{key} is the class {value.__name__}: write {value.__name__}(), with its arguments")
    raise ValueError(f"{key} wants a {kind.__name__}, got {type(value).__name__}")


def _stated(cls: type[Declared]) -> dict[str, Argument]:
    annotations: dict[str, object] = {}
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        own = inspect.get_annotations(base, eval_str=True)
        annotations |= {name: of for name, of in own.items() if ClassVar not in (of, get_origin(of))}
        docs |= _docs(base)
    return {name: Argument(name, annotation, getattr(cls, name, REQUIRED), docs.get(name, "")) for name, annotation in annotations.items()}


def _constructor(cls: type[Declared]) -> Callable[..., None]:
    """An `__init__` with a keyword for each argument, its default as a config has it, so that jsonargparse reads all of it."""

    def construct(self: Declared, **values: object) -> None:
        Declared.__init__(self, **values)

    arguments, kind = arguments_of(cls).items(), inspect.Parameter
    keywords = [kind(name, kind.KEYWORD_ONLY, default=as_config(a.default), annotation=a.annotation) for name, a in arguments]
    signature = inspect.Signature([kind("self", kind.POSITIONAL_OR_KEYWORD), *keywords], return_annotation=None)
    vars(construct)["__signature__"] = signature
    helps = [f"    {name}: {' '.join(argument.help.split())}" for name, argument in arguments]
    construct.__doc__ = "\n".join(["Take what is given, and make the rest as the class has it.", "", "Args:", *helps])
    construct.__name__, construct.__qualname__, construct.__module__ = "__init__", f"{cls.__qualname__}.__init__", cls.__module__
    return construct


def _refuse_undeclared(cls: type[Declared]) -> None:
    """Refuse a public attribute that looks like an argument and is none: a slot or a value whose name is misspelt."""
    annotated = [name for base in cls.__mro__ for name in inspect.get_annotations(base)]
    for name, value in vars(cls).items():
        if name in annotated or name.startswith("_") or not isinstance(value, (Part, bool, int, float, str, type(None))):
            continue
        what = type(value).__name__ if isinstance(value, Part) else repr(value)
        raise TypeError(
            f"{cls.__name__}.{name} is {what}, and there is no argument of this name.{_closest(name, annotated)} "
            f"A new one has a type, as in `{name}: LossTerm | None = ...`; what is to be no argument is a ClassVar"
        )


def _closest(name: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, known, 1)
    return f" Did you mean {found[0]}?" if found else ""


def attribute_docs(cls: type[object]) -> dict[str, str]:
    """The docstring under each attribute that the class itself states, without those of its ancestors; none where there is no source."""
    path = getattr(sys.modules.get(cls.__module__), "__file__", None)
    if path is None:
        return {}
    linecache.checkcache(path)
    found = _class_named(cls.__qualname__.split("."), _tree("".join(linecache.getlines(path))).body)
    return {} if found is None else _docs_in(found)


_tree = functools.lru_cache(maxsize=4)(ast.parse)


def _class_named(path: list[str], body: Iterable[ast.stmt]) -> ast.ClassDef | None:
    """The class at a qualified name such as `Outer.Inner` or `function.<locals>.Local`; the last one of several."""
    name, *rest = path
    found = None
    for node in body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
            inner = rest[1:] if rest[:1] == ["<locals>"] else rest
            found = _class_named(inner, node.body) if inner else node if isinstance(node, ast.ClassDef) else found
    return found


def _docs_in(found: ast.ClassDef) -> dict[str, str]:
    docs: dict[str, str] = {}
    for statement, following in pairwise(found.body):
        text = following.value if isinstance(following, ast.Expr) else None
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
            docs |= {target.id: inspect.cleandoc(text.value) for target in targets if isinstance(target, ast.Name)}
    return docs


_docs = functools.cache(attribute_docs)
