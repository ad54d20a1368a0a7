"""Loading of plugins, each by itself, so that a broken one is a record with a traceback and never an exception."""

from __future__ import annotations

import inspect
import os
import re
import sys
import traceback
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pluggy

from lightrl import hookspecs
from lightrl.hookspecs import GROUP
from lightrl.kinds import KINDS, Kind
from lightrl.registry.distribution import CORE
from lightrl.registry.time_limit import time_limit

CONFIGS = "configs"
"""The folder of a plugin's package whose YAML files `--config NAME` finds."""
LOADING_S = 60.0
"""Seconds that a plugin may compute, or sleep, to be imported and to answer its hooks; one that goes on is a record with an error."""
LIMIT = "LIGHTRL_PLUGINS"
"""The environment variable that says which plugins are loaded."""
_ANY_API = re.compile(r"lightrl\.v(\d+)")


@dataclass
class PluginRecord:
    """The result of loading one entry point."""

    name: str
    """The name of the entry point."""
    distribution: str
    """The installed package that brought it."""
    version: str
    """The version of that package."""
    api: str = GROUP
    """The entry-point group it is registered in: the version of the plugin API that it was written for."""
    module: str = ""
    """Import path of the plugin's module."""
    location: str = ""
    """File of the plugin's module; empty if it was not imported."""
    classes: dict[str, list[type[Any]]] = field(default_factory=dict)
    """The classes that it registers, by kind."""
    configs: list[Path] = field(default_factory=list)
    """YAML files in the folder `configs` of its package."""
    error: str | None = None
    """The reason why it did not load, in one line; None if it did."""
    traceback: str | None = None
    """The traceback of the failure."""

    @property
    def origin(self) -> str:
        """Package and version."""
        return f"{self.distribution} {self.version}".strip()


def load_plugins() -> list[PluginRecord]:
    """Every plugin of the group `lightrl.v1`, the core's own first, each loaded by itself.

    A plugin that was written for another version of the API is a record with an error, and is not imported.

    The environment variable LIGHTRL_PLUGINS limits them to the entry points it names (separated by commas); empty loads
    none but the core's. A name that nothing installed has is a record with an error.
    """
    loaded = [load_plugin(entry) for entry in chosen_entries()]
    there = [entry.name for entry in _entry_points()]
    unknown = f"no installed plugin has this name, which {LIMIT} gives; there are: {', '.join(sorted(there))}"
    return loaded + [PluginRecord(name, "not installed", "", error=unknown) for name in sorted((_limit() or set()).difference(there))]


def chosen_entries() -> list[EntryPoint]:
    """The entry points of the plugins that are loaded, as `load_plugins` says; nothing is imported."""
    names, found = _limit(), sorted(_entry_points(), key=lambda e: (distribution_of_entry(e)[0] != CORE, e.name))
    return [entry for entry in found if names is None or distribution_of_entry(entry)[0] == CORE or entry.name in names]


def configs_of(entry: EntryPoint) -> list[Path]:
    """The YAML files in the folder `configs` of a plugin's package; nothing of the package is imported.

    Args:
        entry: of the plugin.
    """
    top, *inner = entry.module.split(".")
    spec = find_spec(top)
    folders = [Path(folder) for folder in (spec.submodule_search_locations if spec else None) or []]
    for name in inner:
        # a module has its configs beside it
        folders = [folder / name if (folder / name).is_dir() else folder for folder in folders]
    return sorted(file for folder in folders for file in (folder / CONFIGS).glob("*.yaml"))


def load_plugin(entry: EntryPoint) -> PluginRecord:
    """Import one entry point and ask each of its hooks; a failure is kept in the record."""
    distribution, version = distribution_of_entry(entry)
    record = PluginRecord(entry.name, distribution, version, entry.group, entry.module)
    if entry.group != GROUP:
        record.error = _other_api(entry.group)
        return record
    try:
        with nullcontext() if distribution == CORE else time_limit(LOADING_S):
            plugin = entry.load()
            record.location = getattr(sys.modules[entry.module], "__file__", None) or ""
            record.configs = configs_of(entry)
            record.classes = registered_classes(plugin)
    except (Exception, SystemExit) as error:
        record.error = f"{type(error).__name__}: {error}"
        record.traceback = traceback.format_exc()
    return record


def registered_classes(plugin: object) -> dict[str, list[type[Any]]]:
    """The classes that the hooks of a plugin return, by kind, each of them checked."""
    manager = pluggy.PluginManager("lightrl")
    manager.add_hookspecs(hookspecs)
    manager.register(plugin)
    manager.check_pending()
    classes = {}
    for kind in KINDS.values():
        hook = getattr(manager.hook, kind.hook)
        if hook.get_hookimpls():
            answers = hook()
            classes[kind.title] = _checked(kind, answers[0] if answers else None)
    return classes


def _checked(kind: Kind, answer: object) -> list[type[Any]]:
    base = kind.base_class
    if not isinstance(answer, Iterable) or isinstance(answer, (str, bytes)):
        raise TypeError(f"hook {kind.hook} must return a list of classes, got {answer!r}")
    classes = list(answer)
    for cls in classes:
        if not inspect.isclass(cls) or not issubclass(cls, base):
            raise TypeError(f"hook {kind.hook} returned {cls!r}, which is not a subclass of {base.__module__}.{base.__name__}")
        if inspect.isabstract(cls):
            raise TypeError(f"hook {kind.hook} returned {cls.__name__}, which leaves {sorted(vars(cls)['__abstractmethods__'])} abstract")
    names = [cls.__name__ for cls in classes]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"hook {kind.hook} returned two classes named {', '.join(twice)}")
    return classes


def _limit() -> set[str] | None:
    limit = os.environ.get(LIMIT)
    return None if limit is None else {name.strip() for name in limit.split(",")} - {""}


def _other_api(group: str) -> str:
    what = "upgrade lightrl" if _api_version(group) > _api_version(GROUP) else "upgrade the plugin"
    return f"it was written for the plugin API {group}, and this lightrl has {GROUP}: {what}, or install a version of it for {GROUP}"


def _api_version(group: str) -> int:
    found = _ANY_API.fullmatch(group)
    return int(found[1]) if found else 0


def _entry_points() -> list[EntryPoint]:
    every = entry_points()
    mine = every.select(group=GROUP)
    served = {(distribution_of_entry(e)[0], e.name) for e in mine}
    # a package may serve several versions of the API, each in its own group
    others = [e for g in sorted(every.groups) if g != GROUP and _ANY_API.fullmatch(g) for e in every.select(group=g)]
    found = [*mine, *(e for e in others if (distribution_of_entry(e)[0], e.name) not in served)]
    # an editable install can show the same entry point twice: from its build folder and from site-packages
    return list({(distribution_of_entry(e)[0], e.name, e.value): e for e in found}.values())


def distribution_of_entry(entry: EntryPoint) -> tuple[str, str]:
    return (entry.dist.name, entry.dist.version) if entry.dist is not None else ("unknown", "unknown")
