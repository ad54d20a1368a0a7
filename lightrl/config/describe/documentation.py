"""The docstring of a class as a person reads it: first sentence, formula, source, and the documentation of each argument."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import docstring_parser

SOURCE = "Source:"
"""The start of the paragraph with the publication."""
_FORMULA = re.compile(r"\s(=|<-)\s")
_SENTENCE_END = re.compile(r"(?<=\.)\s+(?=[A-Z])")


@dataclass(frozen=True)
class Documentation:
    """The docstring of a class in its parts; a part that it does not have is empty."""

    summary: str
    """The first sentence."""
    formula: str
    """The first later sentence that defines something (has ` = ` in it)."""
    body: str
    """All paragraphs between the first and the source."""
    source: str
    """The publication, without the word `Source:`."""


def documentation(cls: type[Any]) -> Documentation:
    """Read the docstring of a class, or of the nearest ancestor that has one."""
    paragraphs = [" ".join(p.split()) for p in re.split(r"\n\s*\n", inspect.getdoc(cls) or "") if p.strip()]
    first, rest = (paragraphs[0], paragraphs[1:]) if paragraphs else ("", [])
    body = [p for p in rest if not p.startswith(SOURCE)]
    return Documentation(
        summary=first,
        formula=next((s for p in body for s in _SENTENCE_END.split(p) if _FORMULA.search(s)), ""),
        body="\n\n".join(body),
        source=next((p.removeprefix(SOURCE).strip() for p in rest if p.startswith(SOURCE)), ""),
    )


def argument_docs(cls: type[Any]) -> dict[str, str]:
    """The documentation of each argument in one line, that of the nearest ancestor where a class says nothing itself."""
    docs: dict[str, str] = {}
    for base in cls.__mro__[:-1]:
        for text in (getattr(vars(base).get("__init__"), "__doc__", None), base.__doc__):
            for parameter in docstring_parser.parse(text or "").params:
                docs.setdefault(parameter.arg_name, " ".join((parameter.description or "").split()))
    return docs


if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def print_class(console: Console, kind: str, cls: type[Any]) -> None:
    """One class with its kind, formula, source and arguments."""
    about = documentation(cls)
    console.print(f"{kind} {cls.__name__}: {about.summary}", style="bold")
    print_body(console, about)
    console.print(_arguments(cls))


def print_body(console: Console, about: Documentation) -> None:
    """The paragraphs of a class below the first, and its source."""
    for text in (about.body, f"Source: {about.source}" if about.source else ""):
        if text:
            console.print(f"\n{text}")


def folding_table(*columns: str, show_lines: bool = False, title: str | None = None) -> Table:
    """A table whose first column stays in one line, while the others fold."""
    from rich.table import Table

    table = Table(*columns, show_lines=show_lines, title=title, title_justify="left")
    table.columns[0].no_wrap = True
    for column in table.columns:
        column.overflow = "fold"
    return table


def _arguments(cls: type[Any]) -> Table | str:
    """A row for each argument, those of ancestors that it hands on included."""
    from rich.text import Text

    from lightrl.arguments import arguments_of, type_name
    from lightrl.config.describe.algorithms import default_text

    table = folding_table("argument", "type", "default", "what it is")
    docs = argument_docs(cls)
    for argument in arguments_of(cls).values():
        shown = (argument.name, type_name(argument.slot.annotation), default_text(argument), docs.get(argument.name, ""))
        table.add_row(*(Text(cell) for cell in shown))
    return table if table.row_count else "no arguments"
