"""Loads every plugin by itself, so that a broken one is a record with a traceback and never an exception."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import pluggy

from lightrl import hookspecs
from lightrl.hookspecs import GROUP, KINDS

CORE = "lightrl"
"""The distribution whose names are reserved."""


@dataclass
class PluginRecord:
    """What became of one entry point."""

    name: str
    """Of the entry point."""
    distribution: str
    """The installed package that brought it."""
    version: str
    """Of that package."""
    location: str = ""
    """File of the plugin's module; empty if it was not imported."""
    classes: dict[str, list[type[Any]]] = field(default_factory=dict)
    """What it registers, by kind."""
    error: str | None = None
    """One line that says why it did not load; None if it did."""
    traceback: str | None = None
    """Where it failed."""


def load_plugins() -> list[PluginRecord]:
    """Every plugin of the group `lightrl.v1`, the core's own first, each loaded by itself.

    The environment variable LIGHTRL_PLUGINS limits them to the entry points it names (separated by commas); empty loads
    none but the core's.
    """
    found = sorted(_entry_points(), key=lambda e: (_distribution(e)[0] != CORE, e.name))
    wanted = os.environ.get("LIGHTRL_PLUGINS")
    if wanted is not None:
        names = {name.strip() for name in wanted.split(",")}
        found = [e for e in found if _distribution(e)[0] == CORE or e.name in names]
    return [load_plugin(entry) for entry in found]


def load_plugin(entry: EntryPoint) -> PluginRecord:
    """Import one entry point and ask each of its hooks; whatever goes wrong is kept in the record."""
    distribution, version = _distribution(entry)
    record = PluginRecord(entry.name, distribution, version)
    try:
        plugin = entry.load()
        record.location = getattr(sys.modules[entry.module], "__file__", None) or ""
        record.classes = registered_classes(plugin)
    except (Exception, SystemExit) as error:
        record.error = f"{type(error).__name__}: {error}"
        record.traceback = traceback.format_exc()
    return record


def registered_classes(plugin: Any) -> dict[str, list[type[Any]]]:
    """What the hooks of a plugin's module register, by kind, each class checked."""
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


def _checked(kind: hookspecs.Kind, answer: Any) -> list[type[Any]]:
    base = base_class(kind)
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


def base_class(kind: hookspecs.Kind) -> type[Any]:
    """The abstract class of a kind."""
    module, _, name = kind.base.partition(":")
    return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]


def _entry_points() -> list[EntryPoint]:
    # an editable install can show the same entry point twice: from its build folder and from site-packages
    return list({(_distribution(e)[0], e.name, e.value): e for e in entry_points(group=GROUP)}.values())


def _distribution(entry: EntryPoint) -> tuple[str, str]:
    return (entry.dist.name, entry.dist.version) if entry.dist is not None else ("unknown", "unknown")
