"""`lightrl plugins list` and `lightrl plugins show NAME`: the installed plugins, and one in full."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lightrl.registry.loader import PluginRecord


def list_plugins(words: list[str]) -> int:
    """Print every plugin: version, API, classes and place; of a broken one the reason, which is part of the answer."""
    parser = argparse.ArgumentParser(prog="lightrl plugins list", description=list_plugins.__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON in place of a table")
    options = parser.parse_args(words)
    from lightrl.registry.classes import registry

    records = registry().records
    if options.json:
        sys.stdout.write(json.dumps([as_json(record) for record in records], indent=2) + "\n")
    else:
        _print_table(records)
    return 0


def show(words: list[str]) -> int:
    """Print one plugin: each class with its formula, source and arguments; of a broken one the traceback."""
    parser = argparse.ArgumentParser(prog="lightrl plugins show", description="One plugin in full.")
    parser.add_argument("name", metavar="NAME", help="of the plugin or of its distribution, as listed")
    options = parser.parse_args(words)
    from rich.console import Console

    from lightrl.config.describe.documentation import print_class
    from lightrl.registry.classes import record_named

    record = record_named(options.name)
    console = Console(markup=False, highlight=False)
    console.print(f"{record.name}: {record.distribution} {record.version}, {record.api}\n{record.location or record.module}")
    if record.error:
        console.print(f"did not load: {record.error}")
        sys.stdout.write(f"\n{record.traceback or ''}")
        return 0
    if record.configs:
        console.print(f"configs: {', '.join(path.stem for path in record.configs)}")
    for kind, classes in record.classes.items():
        for cls in classes:
            console.print()
            print_class(console, kind, cls)
    return 0


def as_json(record: PluginRecord) -> dict[str, Any]:
    """A plugin as a JSON value."""
    return {
        "name": record.name,
        "distribution": record.distribution,
        "version": record.version,
        "api": record.api,
        "location": record.location,
        "registers": {kind: sorted(names) for kind, names in record.names.items() if names},
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
        registered = "\n".join(f"{kind}: {', '.join(sorted(names))}" for kind, names in record.names.items() if names)
        if record.configs:
            registered += f"\nconfigs: {', '.join(path.stem for path in record.configs)}"
        text = f"did not load: {first_line(record.error)}" if record.error else registered.strip() or "nothing"
        origin = f"{record.distribution} {record.version}\n{record.location}"
        table.add_row(record.name, Text(origin), record.api, Text(text), style="red" if record.error else None)
    Console().print(table)
