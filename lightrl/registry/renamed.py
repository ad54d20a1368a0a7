"""Names that have changed, for the errors that refuse them: each error says the name of today."""

from __future__ import annotations

from collections.abc import Container

ARGUMENTS = {"uninformative": "zero_variance", "equal_groups": "zero_variance"}
"""Arguments of parts and callbacks: the old name and the new one."""


def new_argument(name: str, known: Container[str]) -> str:
    """The end of a message about an unknown argument that has another name today; empty if it never was one.

    Args:
        name: as it was given.
        known: arguments that the class has.
    """
    new = ARGUMENTS.get(name)
    return f" It is called {new!r} now." if new is not None and new in known else ""


def new_place(path: str, known: Container[str]) -> str:
    """The end of a message about an import path of lightrl that leads nowhere, if a class of this name stands elsewhere today.

    Args:
        path: `lightrl.module.Name`.
        known: short names that can be written in its place.
    """
    name = path.rpartition(".")[2]
    return f" It has moved: write {name!r}." if path.startswith("lightrl.") and name in known else ""
