"""Packages: the name of the core, that of an unrelated project, what each of this project registers, and which installed ones are plugins.

The table of the latter is `known_packages.json`, which `make docs` writes; a name that is not installed is answered with its package.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import Distribution, EntryPoint, distributions
from importlib.resources import files
from typing import Literal

from lightrl.hookspecs import COMMANDS, GROUP
from lightrl.versions import installed_version

CORE = "lightrl-core"
"""This distribution, whose registered names are reserved."""
OTHER = "lightrl"
"""Another project on PyPI whose files have the same folder."""
LIMIT = "LIGHTRL_PLUGINS"
"""The environment variable that says which plugins are loaded."""
_ANY_API = re.compile(r"lightrl\.v(\d+)(?:\.commands)?")
Things = Literal["classes", "commands", "configs", "needs"]


@functools.cache
def known_packages() -> dict[str, dict[Things, list[str]]]:
    """By package: the names of its classes, its commands as they are typed, its configs, and the packages beside the core it needs."""
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
    folders = " ".join(f"./plugins/{name}" for name in (*known_packages()[package].get("needs", ()), package))
    return f" It is in the package {package}. Type: pip install --find-links dist {package} (in a checkout: pip install {folders})."


def other_distribution() -> str | None:
    """The complaint about the other distribution, if it is installed beside this one; None if it is not."""
    found = installed_version(OTHER)
    return found and (
        f"the package {OTHER} {found} is installed beside {CORE}, and both write into the folder lightrl: some files may be of the other.\n"
        f"Type: pip uninstall --yes {OTHER} && pip install --force-reinstall --no-deps {CORE} (in a checkout: make install)"
    )


def chosen_entries() -> list[EntryPoint]:
    """The entry points of the plugins that are loaded, as `load_plugins` says; nothing is imported."""
    names, found = wanted(), sorted(plugin_entries()[0], key=lambda e: (distribution_of_entry(e)[0] != CORE, e.name, e.group))
    return [entry for entry in found if names is None or distribution_of_entry(entry)[0] == CORE or entry.name in names]


def wanted() -> set[str] | None:
    """The names that LIGHTRL_PLUGINS gives; None: it is not set."""
    limit = os.environ.get(LIMIT)
    return None if limit is None else {name.strip() for name in limit.split(",")} - {""}


def plugin_entries() -> tuple[list[EntryPoint], dict[str, str]]:
    """The entry points of plugins, and by its name each package, of anybody, whose metadata cannot be read, with the reason."""
    found: dict[str, list[EntryPoint]] = {}
    unreadable: dict[str, str] = {}
    for package in distributions():
        try:
            own = [entry for entry in package.entry_points if api_version(entry.group) >= 0]
            name, version = _name_and_version(package) if own else ("", "")
            # the first on the path is the one that is imported; what is read here is read again
            if own and name.lower() not in found and version and all(entry.module for entry in own):
                # a package may serve several versions of the API, each in its own groups
                mine = [entry for entry in own if entry.group in (GROUP, COMMANDS)]
                served = {entry.name for entry in mine}
                found[name.lower()] = mine + [e for e in own if e.name not in served]
        except Exception as error:
            named, where = "unknown", package.locate_file("")
            with suppress(Exception):
                named = str(package.metadata["Name"])
            unreadable[named] = f"the metadata of a package in {where} cannot be read: {type(error).__name__}: {error}"
    # a stale file may list one twice
    every = [entry for own in found.values() for entry in own]
    return list({(distribution_of_entry(e)[0], e.group, e.name, e.value): e for e in every}.values()), unreadable


def api_version(group: str) -> int:
    """The version of the plugin API that an entry-point group is for; -1: it is another group."""
    found = _ANY_API.fullmatch(group)
    return int(found[1]) if found else -1


def distribution_of_entry(entry: EntryPoint) -> tuple[str, str]:
    """Name and version of the package that brought an entry point."""
    return ("unknown", "unknown") if entry.dist is None else _name_and_version(entry.dist)


@functools.lru_cache(maxsize=256)
def _name_and_version(package: Distribution) -> tuple[str, str]:
    # a Distribution parses all its metadata, of several kilobytes, each time that it is asked
    read = package.metadata
    return read["Name"], read["Version"]


def printable(text: str) -> str:
    """A text of somebody else's package without characters that command a terminal."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
