"""Public names are documented, with shapes, errors and sources, and every kind has a template."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import subprocess
import sys
import textwrap
from typing import Any, get_type_hints

import pytest
from lightrl_workshop.verbs.new import TEMPLATES
from torch import Tensor

import lightrl
from lightrl.kinds import KINDS
from lightrl.registry.classes import registry

PUBLIC = [name for name in lightrl.__all__ if not name.startswith("__")]
CLASSES = [name for name in PUBLIC if inspect.isclass(getattr(lightrl, name))]
PUBLISHED = ("advantage", "importance ratio", "clip scheme", "reward shaping", "KL", "KL controller", "rollout correction")
"""Kinds whose classes state a formula, and somebody published it."""


def own_source(cls: type[Any], method: str) -> Any:
    """The syntax tree of a method that the class itself defines; None if it does not."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body  # type: ignore[attr-defined]
    return next((node for node in body if isinstance(node, ast.FunctionDef) and node.name == method), None)


@pytest.mark.parametrize("title", KINDS)
def test_every_kind_has_a_template_which_the_tests_install(title: str) -> None:
    assert "\n=== test\n" in (TEMPLATES / "kinds" / f"{KINDS[title].slug}.tmpl").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_public_is_there_and_documented(name: str) -> None:
    found = getattr(lightrl, name)
    text = (found.__doc__ or "").strip()
    assert text, f"{name} has no docstring"
    # what a dataclass without one is given
    assert not text.startswith(f"{name}("), f"{name} has no docstring of its own"
    assert not inspect.isclass(found) or "__doc__" in vars(found), f"{name} has only its parent's docstring"


@pytest.mark.parametrize("name", CLASSES)
def test_every_public_method_and_field_is_documented(name: str) -> None:
    cls = getattr(lightrl, name)
    methods = [m for m, f in vars(cls).items() if not m.startswith("_") and (inspect.isfunction(f) or isinstance(f, property))]
    missing = [m for m in methods if not inspect.getdoc(getattr(cls, m))]
    if dataclasses.is_dataclass(cls):
        missing += undocumented_fields(cls)
    assert not missing, f"{name}: {missing}"


def undocumented_fields(cls: type[Any]) -> list[str]:
    """Fields without a docstring under them."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body  # type: ignore[attr-defined]
    said = {
        one.target.id
        for one, next_one in itertools.pairwise(body)
        if isinstance(one, ast.AnnAssign) and isinstance(next_one, ast.Expr) and isinstance(next_one.value, ast.Constant)
    }
    return sorted({field.name for field in dataclasses.fields(cls) if field.name in vars(cls).get("__annotations__", {})} - said)


@pytest.mark.parametrize("name", CLASSES)
def test_errors_that_a_constructor_raises_are_in_its_docstring(name: str) -> None:
    cls = getattr(lightrl, name)
    tree = own_source(cls, "__init__")
    raises = tree is not None and any(isinstance(node, ast.Raise) for node in ast.walk(tree))
    assert not raises or "Raises:" in (cls.__init__.__doc__ or "")


@pytest.mark.parametrize("title", KINDS)
def test_the_abstract_methods_of_a_kind_give_shapes(title: str) -> None:
    base = KINDS[title].base_class
    for method in sorted(getattr(base, "__abstractmethods__", ())):
        function = getattr(base, method, None)
        if not inspect.isfunction(function):
            continue
        hints = get_type_hints(function, localns={"SampledPolicy": Any, "Tensor": Tensor})
        text = f"{inspect.getdoc(base)}\n{function.__doc__}"
        assert Tensor not in hints.values() or "`[" in text, f"{base.__name__}.{method}: give the shapes of its tensors"


@pytest.mark.parametrize("title", PUBLISHED)
def test_a_published_formula_has_its_source(title: str) -> None:
    without = [cls.__name__ for _, cls in registry().of_kind(title) if "Source:" not in (inspect.getdoc(cls) or "")]
    assert not without, f"{without}: end the docstring with Source: and the paper, with equation or section"


def test_the_public_names_are_those_that_plugins_import() -> None:
    assert lightrl.__all__ == ["__version__", *sorted(PUBLIC)]
    assert "v1" in (lightrl.__doc__ or "")
    assert "never removes or renames" in " ".join((lightrl.__doc__ or "").split())


def test_importing_lightrl_stays_light() -> None:
    code = "import sys, lightrl; print([m for m in ('torch', 'lightning', 'transformers', 'pluggy', 'numpy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
