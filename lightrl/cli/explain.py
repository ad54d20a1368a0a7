"""`lightrl explain NAME`: a bundle slot by slot, with the formula and the source of every part; or one part with its arguments."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from lightrl.cli.choice import Choice
    from lightrl.hookspecs import Kind

WIDE = 150
"""Columns of a terminal from which on arguments, formula and source stand side by side."""


def explain(words: list[str]) -> int:
    """Carry out `lightrl explain`.

    Raises:
        ConfigError: no bundle, no part and no kind of part has this name.
    """
    parser = argparse.ArgumentParser(prog="lightrl explain", description=__doc__)
    parser.add_argument("name", metavar="NAME", help="of an algorithm or of any part, as in a config, or of a kind of part")
    options = parser.parse_args(words)
    from rich.console import Console
    from rich.table import Table

    from lightrl.cli.bundles import bundle_named, distribution_of, kind_named, part_named
    from lightrl.cli.docstrings import documentation
    from lightrl.cli.plugin_show import print_class

    console = Console(markup=False, highlight=False)
    alone = part_named(options.name)
    if alone is not None:
        print_class(console, *alone)
        return 0
    kind = kind_named(options.name)
    if kind is not None:
        _print_kind(console, kind)
        return 0
    chosen = bundle_named(options.name)
    about = documentation(chosen.cls)
    table = Table("slot", "part", "arguments", "formula", "source", show_lines=True)
    if console.width < WIDE:
        table = Table("slot", "part", "arguments, formula, source", show_lines=True)
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    for column in table.columns:
        column.overflow = "fold"
    for slot, part, *about_part in rows(chosen):
        table.add_row(slot, part, *(about_part if console.width >= WIDE else ["\n".join(filter(None, about_part))]))
    console.print(f"{chosen.cls.__name__} ({distribution_of(chosen.cls)}): {about.summary}")
    for text in (about.body, f"Source: {about.source}" if about.source else ""):
        if text:
            console.print(f"\n{text}")
    console.print()
    console.print(table)
    console.print(f"\nChange a part: lightrl fit --config FILE --model.algorithm {chosen.cls.__name__} --model.algorithm.SLOT NAME")
    return 0


def _print_kind(console: Console, kind: Kind) -> None:
    from rich.table import Table

    from lightrl import hookspecs
    from lightrl.cli.docstrings import documentation
    from lightrl.plugins.registry import registry

    table = Table(kind.title, "from", "what it is", title_justify="left", show_lines=True)
    for distribution, cls in registry().of_kind(kind.title):
        table.add_row(cls.__name__, distribution, documentation(cls).summary)
    console.print(f"{inspect.getdoc(getattr(hookspecs, kind.hook))}\n")
    console.print(table)
    console.print(
        f"\nOne in full: lightrl explain NAME. One of your own: lightrl plugins new my-idea --kind {kind.title.replace(' ', '-')}"
    )


def rows(chosen: Choice) -> Iterator[tuple[str, str, str, str, str]]:
    """Slot, part, arguments, formula and source, for every slot and for parts inside parts; an empty slot has `-`."""
    from lightrl.algorithms.algorithm import slots_of
    from lightrl.cli.bundles import arguments, parts_in
    from lightrl.cli.choice import Choice, shown
    from lightrl.cli.docstrings import documentation

    for slot in [name for name in slots_of(chosen.cls) if name in chosen.takes]:
        value = chosen.value(slot)
        if value is None:
            yield slot, "-", "", "", ""
        for key, part in parts_in(value, slot):
            about = documentation(part.cls)
            yield key, part.cls.__name__, arguments(part), about.formula, about.source
    for name in [name for name in chosen.takes if name not in slots_of(chosen.cls)]:
        value = chosen.value(name)
        yield name, value.cls.__name__ if isinstance(value, Choice) else shown(value), "", "", ""
