"""The documentation of a class: a docstring of its own, and a type and a line for each argument."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

from lightrl_workshop.checks.check import expect


def check_documentation(cls: type[object]) -> None:
    """Check the docstrings and the signature of a class.

    Raises:
        BrokenContract: one of them is missing; the message says which and what to write.
    """
    expect(bool((cls.__dict__.get("__doc__") or "").strip()), f"{cls.__name__} has no docstring: say in one sentence what it does")
    for owner in cls.__mro__:
        init = owner.__dict__.get("__init__")
        if owner is not object and inspect.isfunction(init):
            _check_arguments(owner, init)


def _check_arguments(owner: type[object], init: Callable[..., None]) -> None:
    text = f"{owner.__doc__ or ''}\n{init.__doc__ or ''}"
    for argument in list(inspect.signature(init).parameters.values())[1:]:
        if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            continue
        where = f"argument {argument.name!r} of {owner.__name__}.__init__"
        expect(argument.annotation is not argument.empty, f"{where} has no type: `lightrl fit --help` could not say what to give")
        described = re.search(rf"^\s*{argument.name}\s*(\(.*\))?:\s*\S", text, re.MULTILINE)
        expect(described is not None, f"{where} is not described: write `{argument.name}: what it is` under Args in the docstring")
