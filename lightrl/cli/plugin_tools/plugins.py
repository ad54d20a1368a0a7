"""`lightrl plugins list | show | check | new`: the installed plugins, one in full, its contract, and a new one."""

from __future__ import annotations

import argparse
import json
import sys
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
    listing = verbs.add_parser("list", help="every plugin: version, API, classes and place; of a broken one the reason")
    listing.add_argument("--json", action="store_true", help="print JSON in place of a table")
    showing = verbs.add_parser("show", help="one plugin: each class with its formula, source and arguments; of a broken one the traceback")
    showing.add_argument("name", metavar="NAME", help="of the plugin or of its distribution, as listed")
    checking = verbs.add_parser("check", help="run contracts and configs of plugins in a fresh process; status 1 if something is wrong")
    checking.add_argument("names", nargs="+", metavar="NAME", help="of a plugin or of its distribution, or its folder")
    checking.add_argument("--arguments", metavar="YAML", help="for classes with required arguments, as a file or {Class: {name: value}}")
    making = verbs.add_parser("new", help="write a package with a part of a kind; it installs and its tests pass")
    making.add_argument("name", metavar="NAME", help="of the package, such as my-idea")
    making.add_argument("--kind", default="algorithm", help=f"kind of its class: {', '.join(k.slug for k in KINDS.values())} (algorithm)")
    making.add_argument("--class", dest="class_name", metavar="NAME", help="of its class; by default made of the package's, such as MyIdea")
    making.add_argument("--out", metavar="FOLDER", help="folder to write; by default NAME in the working directory")
    return parser.parse_args(words)


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
        text = f"did not load: {first_line(record.error)}" if record.error else registered.strip() or "nothing"
        origin = f"{record.distribution} {record.version}\n{record.location}"
        table.add_row(record.name, Text(origin), record.api, Text(text), style="red" if record.error else None)
    Console().print(table)
