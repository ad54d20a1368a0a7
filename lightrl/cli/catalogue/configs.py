"""`lightrl configs`: the configs of installed packages; `copy` writes one of them into a file of yours."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lightrl.config.read.refusals import ConfigError

if TYPE_CHECKING:
    from lightrl.registry.installed_configs import InstalledConfig


def configs(words: list[str]) -> int:
    """Carry out `lightrl configs`."""
    parser = argparse.ArgumentParser(prog="lightrl configs", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the list as JSON")
    verbs = parser.add_subparsers(dest="verb", metavar="copy")
    copying = verbs.add_parser("copy", help="write one into this folder, so that you can edit it")
    copying.add_argument("name", metavar="NAME", help="as listed, or DISTRIBUTION:NAME")
    copying.add_argument("--out", metavar="FILE", help="file to write; by default NAME.yaml in the working directory")
    options = parser.parse_args(words)
    return _copy(options.name, options.out) if options.verb else _list(options.json)


def _list(as_json: bool) -> int:
    from lightrl.registry.installed_configs import installed_configs

    found = installed_configs()
    if as_json:
        rows = [{"name": r.name, "distribution": r.distribution, "summary": r.summary, "path": str(r.path)} for r in found]
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
    else:
        _print(found)
    return 0


def _print(found: list[InstalledConfig]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("config", "from", "summary", title="configs of installed packages", title_justify="left")
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    for config in found:
        table.add_row(config.name, config.distribution, Text(config.summary))
    console = Console(markup=False, highlight=False)
    console.print(table)
    console.print("Run one: lightrl fit --config NAME. Edit one: lightrl configs copy NAME.")


def _copy(name: str, out: str | None) -> int:
    from lightrl.registry.classes import UnknownName
    from lightrl.registry.installed_configs import config_named, installed_configs

    try:
        config = config_named(name, installed_configs())
    except UnknownName as error:
        raise ConfigError("", str(error)) from error
    target = Path(out) if out else Path(f"{config.name}.yaml")
    if not target.parent.is_dir():
        raise ConfigError("--out", f"there is no folder {str(target.parent)!r}.")
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(_at(str(target), config))
    except FileExistsError as error:
        problem = f"{str(target)!r} is already there and stays as it is."
        raise ConfigError(f"lightrl configs copy {name}", problem, "Type another place: --out FILE") from error
    sys.stdout.write(f"{target} ({config.name} of {config.distribution}). Run it: lightrl fit --config {target}\n")
    return 0


def _at(target: str, config: InstalledConfig) -> str:
    """The text of the config; its comments name the copy in place of the installed config."""
    lines = config.path.read_text(encoding="utf-8").splitlines(keepends=True)
    named = re.compile(rf"(?<=--config ){config.name}\b")
    return "".join(named.sub(target, line) if line.startswith("#") else line for line in lines)
