"""`lightrl plugins list | show | check | new`: what is installed and where from, whether it keeps its promises, and a beginning."""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightrl.kinds import KINDS

if TYPE_CHECKING:
    from lightrl.registry.loader import PluginRecord


def plugins(words: list[str]) -> int:
    """Carry out `lightrl plugins ...`.

    Returns:
        0, also from `list` and `show` when a plugin is broken, since that is part of the answer; 1 if `check` finds something wrong.

    Raises:
        ConfigError: a plugin or a kind that is not there, or a folder that is.
    """
    options = _read(words)
    if options.verb == "show":
        from lightrl.cli.plugin_tools.show import show

        return show(options.name)
    if options.verb == "check":
        from lightrl.cli.plugin_tools.check import check

        return check(options.names, options.arguments)
    if options.verb == "new":
        from lightrl.cli.plugin_tools.new import new

        return new(options.name, options.kind, options.class_name, options.out)
    from lightrl.registry.classes import registry

    records = registry().records
    if options.json:
        sys.stdout.write(json.dumps([as_json(record) for record in records], indent=2) + "\n")
    else:
        _print_table(records)
    return 0


def _read(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="lightrl plugins", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    listing = verbs.add_parser("list", help="every plugin: version, API, what it registers, where from; broken ones with the reason")
    listing.add_argument("--json", action="store_true", help="print JSON in place of a table")
    showing = verbs.add_parser("show", help="one plugin: each class with its formula, source and arguments; of a broken one the traceback")
    showing.add_argument("name", metavar="NAME", help="of the plugin or of its distribution, as listed")
    checking = verbs.add_parser("check", help="what every plugin promises, tried in a fresh process; status 1 if something is wrong")
    checking.add_argument("names", nargs="+", metavar="NAME", help="of a plugin or of its distribution, or its folder")
    checking.add_argument("--arguments", metavar="YAML", help="for classes with required arguments, as a file or {Class: {name: value}}")
    making = verbs.add_parser("new", help="a package with a part of a kind, which installs and whose tests pass")
    making.add_argument("name", metavar="NAME", help="of the package, such as my-idea")
    making.add_argument("--kind", default="algorithm", help=f"what it registers: {', '.join(KINDS)} (algorithm)")
    making.add_argument("--class", dest="class_name", metavar="NAME", help="of its class; by default made of the package's, such as MyIdea")
    making.add_argument("--out", metavar="FOLDER", help="where to; by default NAME in the working directory")
    return parser.parse_args(words)


def record_named(name: str) -> PluginRecord:
    """What became of the plugin with this name, or of the only one of the distribution with this name.

    Raises:
        ConfigError: there is none, or a distribution has several.
    """
    from lightrl.config.errors import ConfigError, closest
    from lightrl.registry.classes import registry

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
    """What `text` names: the distribution that a folder with a project file is, or else itself.

    Raises:
        ConfigError: the project file cannot be read or has no name.
    """
    from lightrl.config.errors import ConfigError

    file = Path(text) / "pyproject.toml"
    if not file.is_file():
        return text
    try:
        return str(tomllib.loads(file.read_text(encoding="utf-8"))["project"]["name"])
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise ConfigError(str(file), f"it does not say which package this is: {error}.", "Expected: [project] with a name.") from error


def as_json(record: PluginRecord) -> dict[str, Any]:
    """A plugin as a JSON value."""
    return {
        "name": record.name,
        "distribution": record.distribution,
        "version": record.version,
        "api": record.api,
        "location": record.location,
        "registers": {kind: sorted(cls.__name__ for cls in classes) for kind, classes in record.classes.items() if classes},
        "configs": [path.stem for path in record.configs],
        "error": record.error,
    }


def _print_table(records: list[PluginRecord]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from lightrl.registry.classes import first_line

    table = Table("plugin", "from", "API", "registers", title="plugins", title_justify="left")
    table.columns[1].overflow = "fold"
    for record in records:
        registered = "\n".join(
            f"{kind}: {', '.join(sorted(c.__name__ for c in classes))}" for kind, classes in record.classes.items() if classes
        )
        if record.configs:
            registered += f"\nconfigs: {', '.join(path.stem for path in record.configs)}"
        what = f"did not load: {first_line(record.error)}" if record.error else registered.strip() or "nothing"
        origin = f"{record.distribution} {record.version}\n{record.location}"
        table.add_row(record.name, Text(origin), record.api, Text(what), style="red" if record.error else None)
    Console().print(table)
