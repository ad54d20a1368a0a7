"""`lightrl plugins show NAME`: each class of a plugin with its formula, its source and its arguments; of a broken plugin why."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from lightrl.plugins.loader import PluginRecord


def show(name: str) -> int:
    """Print one plugin.

    Raises:
        ConfigError: no plugin has this name.
    """
    from rich.console import Console

    from lightrl.cli.plugins import record_named

    record = record_named(name)
    console = Console(markup=False, highlight=False)
    console.print("\n".join(_head(record)))
    if record.error:
        sys.stdout.write(f"\n{record.traceback or ''}")
        return 0
    for kind, classes in record.classes.items():
        for cls in classes:
            console.print()
            print_class(console, kind, cls)
    return 0


def print_class(console: Console, kind: str, cls: type[Any]) -> None:
    """One class with its kind, formula, source and arguments.

    Args:
        console: to print on.
        kind: title of a kind.
        cls: of that kind.
    """
    from lightrl.cli.docstrings import documentation

    about = documentation(cls)
    console.print(f"{kind} {cls.__name__}: {about.summary}", style="bold")
    for text in (about.body, f"Source: {about.source}" if about.source else ""):
        if text:
            console.print(f"\n{text}")
    console.print(_arguments(cls))


def _head(record: PluginRecord) -> list[str]:
    lines = [f"{record.name}: {record.distribution} {record.version}, {record.api}", record.location or record.module]
    if record.error:
        return [*lines, f"did not load: {record.error}"]
    if record.recipes:
        lines.append(f"configs: {', '.join(path.stem for path in record.recipes)}")
    return lines


def _arguments(cls: type[Any]) -> Table | str:
    """A row for each argument, those of ancestors that it hands on included."""
    from rich.table import Table
    from rich.text import Text

    from lightrl.cli.bundles import default_text
    from lightrl.cli.signatures import arguments_of, type_name

    table = Table("argument", "type", "default", "what it is", show_lines=False)
    table.columns[0].no_wrap = True
    for column in table.columns:
        column.overflow = "fold"
    for argument in arguments_of(cls).values():
        shown = (argument.name, type_name(argument.slot.annotation), default_text(argument), argument.help)
        table.add_row(*(Text(cell) for cell in shown))
    return table if table.row_count else "no arguments"
