"""The docstrings that stand under the attributes of a class, read from its source."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import sys
from collections.abc import Iterable
from itertools import pairwise


def attribute_docs(cls: type[object]) -> dict[str, str]:
    """The docstring under each attribute that the class itself states; none where its source cannot be read.

    Args:
        cls: whose body is read, without those of its ancestors.
    """
    path = getattr(sys.modules.get(cls.__module__), "__file__", None)
    if path is None:
        return {}
    linecache.checkcache(path)
    found = _class_named(cls.__qualname__.split("."), _tree("".join(linecache.getlines(path))).body)
    return {} if found is None else _docs_in(found)


@functools.lru_cache(maxsize=4)
def _tree(source: str) -> ast.Module:
    return ast.parse(source)


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
