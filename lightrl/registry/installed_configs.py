"""Installed configs: the configs in the packages of plugins, which `--config NAME` finds."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lightrl.hookspecs import GROUP
from lightrl.registry.classes import UnknownName
from lightrl.registry.known_packages import chosen_entries, distribution_of_entry, where_to_find
from lightrl.registry.loader import configs_of

_CLAUSE_END = re.compile(r":\s|(?<=\.)(?<!\bDr\.)\s+(?=[A-Z])")


@dataclass(frozen=True)
class InstalledConfig:
    """One config of an installed package."""

    name: str
    """The name of its file without the ending."""
    distribution: str
    path: Path

    @property
    def summary(self) -> str:
        """The comment at its top up to the first colon or full stop; empty if there is none."""
        lines = []
        for line in self.path.read_text(encoding="utf-8").splitlines():
            if not line.startswith("#") or not line.removeprefix("#").strip():
                break
            lines.append(line.removeprefix("#").strip())
        return _CLAUSE_END.split(" ".join(lines))[0].rstrip(".")


def installed_configs() -> list[InstalledConfig]:
    """Every config of the installed packages, sorted by name; nothing is imported, so those of a broken plugin are there, too."""
    found = ((path, distribution_of_entry(e)[0]) for e in chosen_entries() if e.group == GROUP for path in configs_of(e))
    by_name = {(path.stem, distribution): path for path, distribution in found}
    return [InstalledConfig(name, distribution, path) for (name, distribution), path in sorted(by_name.items())]


def config_named(name: str, installed: Sequence[InstalledConfig]) -> InstalledConfig:
    """The config that `NAME` or `distribution:NAME` means; an UnknownName if none of those installed, or more than one, has this name."""
    distribution, colon, short = name.rpartition(":")
    matches = [r for r in installed if r.name == short and (not colon or r.distribution == distribution)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        choices = " or ".join(f"{r.distribution}:{short}" for r in matches)
        raise UnknownName(f"{len(matches)} packages bring a config named {short!r}. Write {choices}.")
    near = difflib.get_close_matches(short, sorted({r.name for r in installed}), n=3, cutoff=0.6)
    package = where_to_find(short, "configs", {r.distribution for r in installed})
    suggestion = package or (f" Did you mean {' or '.join(map(repr, near))}?" if near else "")
    raise UnknownName(f"no installed config is named {name!r}.{suggestion} All of them: lightrl configs")
