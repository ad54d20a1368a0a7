"""Loading of plugins, each by itself, so that a broken one is a record with a traceback and never an exception."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pluggy

from lightrl import hookspecs
from lightrl.hookspecs import COMMANDS, GROUP
from lightrl.import_path import imported, is_import_path
from lightrl.kinds import COMMAND, KINDS, Kind
from lightrl.registry.known_packages import (
    CORE,
    LIMIT,
    api_version,
    chosen_entries,
    distribution_of_entry,
    plugin_entries,
    printable,
    wanted,
)
from lightrl.registry.time_limit import time_limit

CONFIGS = "configs"
"""The folder of a plugin's package whose YAML files `--config NAME` finds."""
LOADING_S = 60.0
"""Seconds that a plugin may compute, or sleep, to be imported and to answer its hooks; one that goes on is a record with an error."""


@dataclass
class PluginRecord:
    """The result of loading the entry points with one name of one package."""

    name: str
    """The name of the entry points."""
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
    paths: dict[str, list[str]] = field(default_factory=dict)
    """The classes that it registers, by kind, as `package.module:Class`; nothing is imported to know them."""
    configs: list[Path] = field(default_factory=list)
    """YAML files in the folder `configs` of its package."""
    error: str | None = None
    """The reason why it did not load, in one line; None if it did."""
    traceback: str | None = None
    """The traceback of the failure."""
    loaded: dict[str, list[type[Any]]] = field(default_factory=dict)
    """The classes of the kinds that were needed, imported and checked."""

    @property
    def origin(self) -> str:
        """Package and version."""
        return f"{self.distribution} {self.version}".strip()

    @property
    def names(self) -> dict[str, list[str]]:
        """The names of the classes that it registers, by kind."""
        return {kind: [path.rpartition(":")[2].rpartition(".")[2] for path in paths] for kind, paths in self.paths.items()}

    @property
    def classes(self) -> dict[str, list[type[Any]]]:
        """The classes that it registers, by kind, all of them imported; none if one cannot be."""
        every = {kind: self.of_kind(kind) for kind in self.paths}
        return {} if self.error else every

    def of_kind(self, kind: str) -> list[type[Any]]:
        """The classes of a kind, imported when they are first asked for; if one cannot be, the record is one with an error."""
        if kind not in self.loaded and not self.error:
            try:
                with nullcontext() if self.distribution == CORE else time_limit(LOADING_S):
                    self.loaded[kind] = _checked(KINDS[kind], [imported(path.replace(":", ".")) for path in self.paths.get(kind, [])])
            except (Exception, SystemExit) as error:
                self.fail(error)
        return [] if self.error else self.loaded[kind]

    def fail(self, error: BaseException) -> None:
        """Keep why it does not load; called while the exception is handled."""
        # str() of an exception may raise another one
        said = traceback.TracebackException.from_exception(error)
        self.error = "\n".join(map(printable, f"{type(error).__name__}: {said}".splitlines()))
        self.traceback = "\n".join(map(printable, traceback.format_exc().splitlines())) + "\n"


def load_plugins() -> list[PluginRecord]:
    """Every plugin of the groups `lightrl.v1` and `lightrl.v1.commands`, the core's own first, each loaded by itself.

    A plugin that was written for another version of the API is a record with an error, and is not imported.

    The environment variable LIGHTRL_PLUGINS limits them to the entry points it names (separated by commas); empty loads
    none but the core's. A name that nothing installed has is a record with an error.
    """
    return _loaded(chosen_entries()) + _unknown()


def load_commands() -> list[PluginRecord]:
    """The plugins that bring commands, as `load_plugins` does, with nothing of them but their commands."""
    return _loaded([entry for entry in chosen_entries() if entry.group == COMMANDS])


def load_core() -> list[PluginRecord]:
    """The core's own plugin."""
    return _loaded([entry for entry in chosen_entries() if distribution_of_entry(entry)[0] == CORE])


def _loaded(entries: list[EntryPoint]) -> list[PluginRecord]:
    plugins: dict[tuple[str, str], list[EntryPoint]] = {}
    for entry in entries:
        plugins.setdefault((distribution_of_entry(entry)[0], entry.name), []).append(entry)
    return [load_plugin(*own) for own in plugins.values()]


def _unknown() -> list[PluginRecord]:
    """A record for each name that LIGHTRL_PLUGINS gives and nothing has, and for each package whose metadata cannot be read."""
    there, unreadable = plugin_entries()
    names = sorted({entry.name for entry in there})
    unknown = f"no installed plugin has this name, which {LIMIT} gives; there are: {', '.join(names)}"
    records = [PluginRecord(printable(name), "not installed", "", error=unknown) for name in sorted((wanted() or set()).difference(names))]
    return records + [PluginRecord(printable(name), "unreadable", "", error=printable(reason)) for name, reason in unreadable.items()]


def configs_of(entry: EntryPoint) -> list[Path]:
    """The YAML files in the folder `configs` of a plugin's package; nothing of the package is imported."""
    top, *inner = entry.module.split(".")
    spec = find_spec(top)
    folders = [Path(folder) for folder in (spec.submodule_search_locations if spec else None) or []]
    for name in inner:
        # a module has its configs beside it
        folders = [folder / name if (folder / name).is_dir() else folder for folder in folders]
    return sorted(file for folder in folders for file in (folder / CONFIGS).glob("*.yaml"))


def load_plugin(*entries: EntryPoint) -> PluginRecord:
    """Import the entry points of one plugin, all of one name, and ask each of their hooks; a failure is kept in the record."""
    first = entries[0]
    distribution, version = distribution_of_entry(first)
    name, distribution, version = map(printable, (first.name, distribution, version))
    record = PluginRecord(name, distribution, version, first.group.removesuffix(".commands"), first.module)
    for entry in entries:
        if entry.group not in (GROUP, COMMANDS):
            what = "upgrade lightrl" if api_version(entry.group) > api_version(GROUP) else "upgrade the plugin"
            record.error = (
                f"it was written for the plugin API {entry.group}, and this lightrl has {GROUP}: {what}, or install a version of it for "
                f"{GROUP}"
            )
            return record
    try:
        with nullcontext() if distribution == CORE else time_limit(LOADING_S):
            plugins = [entry.load() for entry in entries]
            record.location = getattr(sys.modules[first.module], "__file__", None) or ""
            record.configs = configs_of(first) if first.group == GROUP else []
            for entry, plugin in zip(entries, plugins, strict=True):
                _check_asked(plugin, [other.group for other in entries if other.value == entry.value])
                for kind, answer in answers(plugin).items():
                    if (kind == COMMAND.title) == (entry.group == COMMANDS):
                        record.paths[kind] = [one if isinstance(one, str) else path_of(one) for one in answer]
                        _check_names(kind, record.paths[kind])
                        if not any(isinstance(one, str) for one in answer):
                            record.loaded[kind] = _checked(KINDS[kind], answer)
    except (Exception, SystemExit) as error:
        record.fail(error)
    return record


def _check_asked(plugin: object, groups: list[str]) -> None:
    """Refuse a hook in a module that has no entry point in the group in which the hook is asked."""
    for kind in KINDS.values():
        group = COMMANDS if kind is COMMAND else GROUP
        if group not in groups and hasattr(getattr(plugin, kind.hook, None), "lightrl_impl"):
            raise TypeError(f"{kind.hook} is asked in modules with an entry point in the group {group!r}, and this one has none there")


def _check_names(kind: str, paths: list[str]) -> None:
    for path in paths:
        if not is_import_path(path.replace(":", ".").replace(".<locals>.", ".")):
            raise TypeError(
                f"hook {KINDS[kind].hook} returned a class named {path!r}, and a name has letters, digits and underscores alone"
            )


def registered_classes(plugin: object) -> dict[str, list[type[Any]]]:
    """The classes that the hooks of a plugin return, by kind, each of them imported and checked."""
    found = {
        kind: [imported(one.replace(":", ".")) if isinstance(one, str) else one for one in answer]
        for kind, answer in answers(plugin).items()
    }
    return {kind: _checked(KINDS[kind], classes) for kind, classes in found.items()}


def answers(plugin: object) -> dict[str, list[Any]]:
    """The returns of the hooks of a plugin, by kind: classes, or the import paths of classes."""
    manager = pluggy.PluginManager("lightrl")
    manager.add_hookspecs(hookspecs)
    manager.register(plugin)
    manager.check_pending()
    found = {}
    for kind in KINDS.values():
        hook = getattr(manager.hook, kind.hook)
        if hook.get_hookimpls():
            said = hook()
            found[kind.title] = _listed(kind, said[0] if said else None)
    return found


def _listed(kind: Kind, answer: object) -> list[Any]:
    if not isinstance(answer, Iterable) or isinstance(answer, (str, bytes)):
        raise TypeError(f"hook {kind.hook} must return a list of classes, got {answer!r}")
    listed = list(answer)
    for one in listed:
        if not inspect.isclass(one) and not (isinstance(one, str) and one.count(":") == 1 and is_import_path(one.replace(":", "."))):
            base = kind.base_class
            raise TypeError(
                f"hook {kind.hook} returned {one!r}, which is not a subclass of {base.__module__}.{base.__name__}, "
                "nor the import path package.module:Class of one"
            )
    return listed


def path_of(cls: type[Any]) -> str:
    """The import path of a class, `package.module:Class`."""
    return f"{cls.__module__}:{cls.__qualname__}"


def _checked(kind: Kind, classes: list[Any]) -> list[type[Any]]:
    base = kind.base_class
    for cls in classes:
        if not inspect.isclass(cls) or not issubclass(cls, base):
            raise TypeError(f"hook {kind.hook} returned {cls!r}, which is not a subclass of {base.__module__}.{base.__name__}")
        if inspect.isabstract(cls):
            raise TypeError(f"hook {kind.hook} returned {cls.__name__}, which leaves {sorted(vars(cls)['__abstractmethods__'])} abstract")
    names = [cls.__name__ for cls in classes]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"hook {kind.hook} returned two classes named {', '.join(twice)}")
    return classes
