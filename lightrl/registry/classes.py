"""Registered classes by name: a short name means the class that a hook registered under it, and nothing else."""

from __future__ import annotations

import difflib
import functools
import itertools
from collections.abc import Iterable
from typing import Any

from lightrl.import_path import ImportPathError, imported
from lightrl.kinds import KINDS, Kind
from lightrl.registry.known_packages import CORE, where_to_find
from lightrl.registry.loader import PluginRecord, load_core, load_plugins


class UnknownName(ValueError):  # noqa: N818 - what it is reads better without a suffix
    """A name in a config that no plugin registered, or that two did."""


class Registry:
    """The classes of all loaded plugins by kind and name."""

    def __init__(self, records: list[PluginRecord]) -> None:
        """A plugin that takes a name of the core is turned into a failed one."""
        self.records = records
        for record in records:
            self._protect_core(record)

    def of_kind(self, kind: str) -> list[tuple[str, type[Any]]]:
        """Every registered class of a kind with the distribution that brought it, sorted by name."""
        return sorted(self.registered(kind), key=lambda pair: (pair[1].__name__, pair[0]))

    def registered(self, kind: str) -> list[tuple[str, type[Any]]]:
        """As `of_kind`, in the order in which packages are loaded and list their classes: the core's first."""
        return [(r.distribution, cls) for r in self.records for cls in r.of_kind(kind)]

    def resolve(self, kind: str, name: str, key: str = "") -> type[Any]:
        """The class that `Name`, `distribution:Name` or an import path means; `key` is where in the config it stands, for messages.

        Raises:
            UnknownName: nothing or more than one thing has this name, or it is not of this kind.
        """
        where = f"{key}: " if key else ""
        distribution, colon, short = name.rpartition(":")
        if not colon and "." in name:
            return self._imported(KINDS[kind], name, where)
        matches = [(d, cls) for d, cls in self.of_kind(kind) if cls.__name__ == short and (not colon or d == distribution)]
        if len(matches) == 1:
            return matches[0][1]
        if matches:
            choices = " or ".join(f"{d}:{short}" for d, _ in matches)
            raise UnknownName(f"{where}{len(matches)} plugins register a {kind} named {short!r}. Write {choices}.")
        elsewhere = "".join(f" It is of another kind: {other}." for other in self.kinds_of(name))
        package = where_to_find(short, "classes", self.packages)
        said = package or elsewhere + closest(short, [cls.__name__ for _, cls in self.of_kind(kind)])
        raise UnknownName(f"{where}no {kind} is named {name!r}.{said} {self._known(kind)}{did_not_load(self.records)}")

    @property
    def places(self) -> set[tuple[str, str]]:
        """Of every registered class, the package that it is in and its name."""
        paths = {path for r in self.records for of in r.paths.values() for path in of}
        return {(path.partition(".")[0].partition(":")[0], path.rpartition(":")[2]) for path in paths}

    @property
    def packages(self) -> set[str]:
        """The packages that were loaded, or have failed to."""
        return {record.distribution for record in self.records}

    def _known(self, kind: str) -> str:
        known = sorted(self.of_kind(kind), key=lambda pair: (pair[0] != CORE, pair[0]))
        listed = (f"{', '.join(cls.__name__ for _, cls in of)} ({d})" for d, of in itertools.groupby(known, key=lambda pair: pair[0]))
        return f"Known: {', '.join(listed) or 'none'}."

    def kinds_of(self, name: str) -> list[str]:
        """The kinds under which `Name`, `distribution:Name` or an import path is registered; nothing is imported to know it."""
        distribution, _, short = name.rpartition(":")
        records = [r for r in self.records if not r.error and distribution in ("", r.distribution)]
        paths = {kind: [path for r in records for path in r.paths.get(kind, [])] for kind in KINDS}
        return [kind for kind, known in paths.items() if any(short in (p.rpartition(":")[2], p.replace(":", ".")) for p in known)]

    def _at(self, path: str) -> dict[str, type[Any]]:
        """The registered class at an import path, by its kinds."""
        kinds = {kind for r in self.records for kind, paths in r.paths.items() if path in {known.replace(":", ".") for known in paths}}
        return {kind: cls for kind in kinds for _, cls in self.of_kind(kind) if f"{cls.__module__}.{cls.__qualname__}" == path}

    def _imported(self, kind: Kind, path: str, where: str) -> type[Any]:
        registered = self._at(path)
        if kind.title in registered:
            return registered[kind.title]
        if registered:
            raise UnknownName(f"{where}{path!r} is no {kind.title}: it is registered as {' and '.join(registered)}.")
        try:
            found = imported(path)
        except ImportPathError as error:
            known = [cls.__name__ for _, cls in self.of_kind(kind.title)]
            elsewhere = where_to_find(path, "classes", self.packages)
            if path.startswith("lightrl.") and (name := path.rpartition(".")[2]) in known:
                elsewhere = f" Write its name alone: {name!r}."
            raise UnknownName(f"{where}{error}.{elsewhere}") from error
        base = kind.base_class
        if not isinstance(found, type) or not issubclass(found, base):
            raise UnknownName(f"{where}{path!r} is no {kind.title}: it is no subclass of {base.__module__}.{base.__name__}.")
        return found

    def _protect_core(self, record: PluginRecord) -> None:
        if record.distribution == CORE or record.error:
            return
        core = {(kind, name) for r in self.records if r.distribution == CORE for kind, names in r.names.items() for name in names}
        mine = {(kind, name) for kind, names in record.names.items() for name in names}
        if taken := [f"{name} ({kind})" for kind, name in sorted(mine & core)]:
            record.error = f"it registers {', '.join(taken)}, and names of the core are reserved: rename the class"


def record_named(name: str) -> PluginRecord:
    """The record of the plugin with this name, or of the only plugin of the distribution with this name.

    Raises:
        UnknownName: there is none, or a distribution has several.
    """
    records = registry().records
    found = [r for r in records if r.name == name] or [r for r in records if r.distribution == name]
    if len(found) == 1:
        return found[0]
    if found:
        same = ", ".join(f"{r.name} ({r.distribution})" for r in found)
        raise UnknownName(f"{name!r} may be {same}: " + ("write the distribution." if found[0].name == name else "write the name."))
    names = [n for r in records for n in dict.fromkeys((r.name, r.distribution))]
    installed = ", ".join(r.name for r in records)
    raise UnknownName(f"no plugin is named {name!r}.{closest(name, names)} Installed: {installed}.\nSee: lightrl plugins list")


def did_not_load(records: list[PluginRecord]) -> str:
    """A line for each plugin that failed: the name that is looked for may have been its."""
    return "".join(
        f"\nPlugin {r.name!r} ({r.origin}) did not load: {first_line(r.error)}. See: lightrl plugins show {r.name}"
        for r in records
        if r.error
    )


def first_line(text: str | None) -> str:
    """The first line of a message, for tables and lists."""
    return (text or "").strip().splitlines()[0] if (text or "").strip() else ""


@functools.cache
def registry() -> Registry:
    """The plugins of this process, loaded once."""
    return Registry(load_plugins())


@functools.cache
def core() -> Registry:
    """The core's own classes alone, without loading a plugin."""
    return Registry(load_core())


def closest(name: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` if one of the known names is close, else nothing."""
    by_lower = {k.lower(): k for k in known}
    found = difflib.get_close_matches(name.lower(), by_lower, cutoff=0.6)
    # two letters that have changed places are the likeliest slip
    found.sort(key=lambda match: sorted(match) != sorted(name.lower()))
    return f" Did you mean {by_lower[found[0]]!r}?" if found else ""
