"""The packages of this project and what each of them registers, so that the name of one that is not installed is answered with it.

The table is `known_packages.json`, which `make docs` writes.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from typing import Literal

from lightrl.registry.loader import LIMIT

Things = Literal["classes", "commands", "configs"]


@functools.cache
def known_packages() -> dict[str, dict[Things, list[str]]]:
    """By package: the names of its classes, its commands as they are typed, and its configs."""
    found: dict[str, dict[Things, list[str]]] = json.loads((files("lightrl.registry") / "known_packages.json").read_text(encoding="utf-8"))
    return found


def where_to_find(name: str, things: Things, loaded: Iterable[str]) -> str:
    """A sentence about the package that brings a name, if it is one of ours and is not loaded; empty else.

    Args:
        name: of a command, a class or a config, or the import path of a class.
        things: which of them it is.
        loaded: packages that were loaded, or have failed to.
    """
    module = name.partition(".")[0].replace("_", "-")
    package = next((package for package, of in known_packages().items() if name in of[things] or module == package), None)
    if package is None or package in loaded:
        return ""
    if LIMIT in os.environ and is_installed(package):
        return f" It is in {package}, which {LIMIT} leaves out."
    return (
        f" It is in the package {package}. Type: pip install --find-links dist {package} (in a checkout: pip install ./plugins/{package})."
    )


def is_installed(package: str) -> bool:
    """Whether a distribution of this name is installed."""
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True
