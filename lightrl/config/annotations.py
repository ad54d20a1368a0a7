"""The types of a function's arguments where its source only names them, as `from __future__ import annotations` does."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints


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
