"""One class as a person reads it: its formula, its source and its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def print_class(console: Console, kind: str, cls: type[Any]) -> None:
    """One class with its kind, formula, source and arguments.

    Args:
        console: to print on.
        kind: title of a kind.
        cls: of that kind.
    """
    from lightrl.config.docstrings import documentation

    about = documentation(cls)
    console.print(f"{kind} {cls.__name__}: {about.summary}", style="bold")
    for text in (about.body, f"Source: {about.source}" if about.source else ""):
        if text:
            console.print(f"\n{text}")
    console.print(_arguments(cls))


def _arguments(cls: type[Any]) -> Table | str:
    """A row for each argument, those of ancestors that it hands on included."""
    from rich.table import Table
    from rich.text import Text

    from lightrl.config.algorithm_choice import default_text
    from lightrl.config.docstrings import argument_docs
    from lightrl.config.signatures import arguments_of
    from lightrl.config.slots import type_name

    table = Table("argument", "type", "default", "what it is", show_lines=False)
    table.columns[0].no_wrap = True
    for column in table.columns:
        column.overflow = "fold"
    docs = argument_docs(cls)
    for argument in arguments_of(cls).values():
        shown = (argument.name, type_name(argument.slot.annotation), default_text(argument), docs.get(argument.name, ""))
        table.add_row(*(Text(cell) for cell in shown))
    return table if table.row_count else "no arguments"
