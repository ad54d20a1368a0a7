"""The packages of this project: the name of the core, that of an unrelated project, and what each package registers.

The table of the latter is `known_packages.json`, which `make docs` writes; a name that is not installed is answered with its package.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Literal

CORE = "lightrl-core"
"""This distribution, whose registered names are reserved."""
OTHER = "lightrl"
"""Another project on PyPI whose files have the same folder."""
LIMIT = "LIGHTRL_PLUGINS"
"""The environment variable that says which plugins are loaded."""
Things = Literal["classes", "commands", "configs"]


@functools.cache
def known_packages() -> dict[str, dict[Things, list[str]]]:
    """By package: the names of its classes, its commands as they are typed, and its configs."""
    found: dict[str, dict[Things, list[str]]] = json.loads((files("lightrl.registry") / "known_packages.json").read_text(encoding="utf-8"))
    return found


def where_to_find(name: str, things: Things, loaded: Iterable[str]) -> str:
    """A sentence about the package that brings a name, or the class at an import path, if it is one of ours and not loaded; empty else."""
    module = name.partition(".")[0].replace("_", "-")
    package = next((package for package, of in known_packages().items() if name in of[things] or module == package), None)
    if package is None or package in loaded:
        return ""
    if LIMIT in os.environ and installed_version(package) is not None:
        return f" It is in {package}, which {LIMIT} leaves out."
    where = f"pip install --find-links dist {package} (in a checkout: pip install ./plugins/{package})"
    return f" It is in the package {package}. Type: {where}."


def installed_version(package: str) -> str | None:
    """The version of a distribution; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def other_distribution() -> str | None:
    """The complaint about the other distribution, if it is installed beside this one; None if it is not."""
    found = installed_version(OTHER)
    return found and (
        f"the package {OTHER} {found} is installed beside {CORE}, and both write into the folder lightrl: some files may be of the other.\n"
        f"Type: pip uninstall --yes {OTHER} && pip install --force-reinstall --no-deps {CORE} (in a checkout: make install)"
    )
