"""`lightrl plugins list`: what is installed, where from, and what failed to load."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from lightrl.hookspecs import GROUP

if TYPE_CHECKING:
    from lightrl.plugins.loader import PluginRecord


def plugins(words: list[str]) -> int:
    """Carry out `lightrl plugins ...`; returns 0 also when a plugin is broken: that is part of the answer."""
    parser = argparse.ArgumentParser(prog="lightrl plugins", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    listing = verbs.add_parser("list", help="every plugin: version, API, what it registers, where from; broken ones with the reason")
    listing.add_argument("--json", action="store_true", help="print JSON in place of a table")
    options = parser.parse_args(words)
    from lightrl.plugins.registry import registry

    records = registry().records
    if options.json:
        sys.stdout.write(json.dumps([as_json(record) for record in records], indent=2) + "\n")
    else:
        _print_table(records)
    return 0


def as_json(record: PluginRecord) -> dict[str, Any]:
    """A plugin as a JSON value."""
    return {
        "name": record.name,
        "distribution": record.distribution,
        "version": record.version,
        "api": GROUP,
        "location": record.location,
        "registers": {kind: sorted(cls.__name__ for cls in classes) for kind, classes in record.classes.items() if classes},
        "error": record.error,
    }


def _print_table(records: list[PluginRecord]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from lightrl.plugins.registry import first_line

    table = Table("plugin", "from", "API", "registers", title="plugins", title_justify="left")
    table.columns[1].overflow = "fold"
    for record in records:
        registered = "\n".join(
            f"{kind}: {', '.join(sorted(c.__name__ for c in classes))}" for kind, classes in record.classes.items() if classes
        )
        what = f"did not load: {first_line(record.error)}" if record.error else registered or "nothing"
        origin = f"{record.distribution} {record.version}\n{record.location}"
        table.add_row(record.name, Text(origin), GROUP, Text(what), style="red" if record.error else None)
    Console().print(table)
