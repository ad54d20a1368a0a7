"""A plugin by the name that a person types."""

from __future__ import annotations

import tomllib
from pathlib import Path

from lightrl.config.errors import ConfigError
from lightrl.registry.classes import registry
from lightrl.registry.closest import closest
from lightrl.registry.loader import PluginRecord


def record_named(name: str) -> PluginRecord:
    """The record of the plugin with this name, or of the only plugin of the distribution with this name.

    Raises:
        ConfigError: there is none, or a distribution has several.
    """
    records = registry().records
    found = [r for r in records if r.name == name] or [r for r in records if r.distribution == name]
    if len(found) == 1:
        return found[0]
    if found:
        same = ", ".join(f"{r.name} ({r.distribution})" for r in found)
        raise ConfigError("", f"{name!r} may be {same}: " + ("write the distribution." if found[0].name == name else "write the name."))
    names = [n for r in records for n in dict.fromkeys((r.name, r.distribution))]
    raise ConfigError(
        "",
        f"no plugin is named {name!r}.{closest(name, names)} Installed: {', '.join(r.name for r in records)}.",
        "See: lightrl plugins list",
    )


def name_of(text: str) -> str:
    """The distribution of the project in this folder; if it is no such folder, the text itself.

    Raises:
        ConfigError: the project file cannot be read or has no name.
    """
    file = Path(text) / "pyproject.toml"
    if not file.is_file():
        return text
    try:
        return str(tomllib.loads(file.read_text(encoding="utf-8"))["project"]["name"])
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise ConfigError(str(file), f"it does not say which package this is: {error}.", "Expected: [project] with a name.") from error
