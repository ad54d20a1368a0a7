"""`lightrl explain NAME`: an algorithm, slot by slot with formula and source; a part; a kind of part; or any public name."""

from __future__ import annotations

import argparse
import inspect
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from lightrl.config.describe.choice import Choice
    from lightrl.kinds import Kind

WIDE = 150
"""In a terminal with at least as many columns, arguments, formula and source stand side by side."""


def explain(words: list[str]) -> int:
    """Carry out `lightrl explain`.

    Raises:
        ConfigError: no algorithm, no part and no kind of part has this name.
    """
    parser = argparse.ArgumentParser(prog="lightrl explain", description=__doc__)
    parser.add_argument("name", metavar="NAME", help="an algorithm or a part by its name in configs, or a kind of part")
    options = parser.parse_args(words)
    from rich.console import Console

    from lightrl.config.describe.algorithms import algorithm_named, kind_named, part_named
    from lightrl.config.describe.documentation import print_class
    from lightrl.config.read.refusals import ConfigError

    console = Console(markup=False, highlight=False)
    alone = part_named(options.name)
    if alone is not None:
        print_class(console, *alone)
        return 0
    kind = kind_named(options.name)
    if kind is not None:
        _print_kind(console, kind)
        return 0
    try:
        chosen = algorithm_named(options.name)
    except ConfigError:
        # looked for last, since it loads every callback
        public = public_named(options.name)
        if public is None:
            raise
        print_public(console, public)
        return 0
    _print_algorithm(console, chosen)
    return 0


def _print_algorithm(console: Console, algorithm: Choice) -> None:
    from rich.table import Table

    from lightrl.config.describe.algorithms import distribution_of, rows
    from lightrl.config.describe.documentation import documentation

    about = documentation(algorithm.cls)
    table = Table("slot", "part", "arguments", "formula", "source", show_lines=True)
    if console.width < WIDE:
        table = Table("slot", "part", "arguments, formula, source", show_lines=True)
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    for column in table.columns:
        column.overflow = "fold"
    for slot, part, *about_part in rows(algorithm):
        table.add_row(slot, part, *(about_part if console.width >= WIDE else ["\n".join(filter(None, about_part))]))
    console.print(f"{algorithm.cls.__name__} ({distribution_of(algorithm.cls)}): {about.summary}")
    for text in (about.body, f"Source: {about.source}" if about.source else ""):
        if text:
            console.print(f"\n{text}")
    console.print()
    console.print(table)
    console.print(f"\nChange a part: lightrl fit --config FILE --model.algorithm {algorithm.cls.__name__} --model.algorithm.SLOT NAME")


def _print_kind(console: Console, kind: Kind) -> None:
    from rich.table import Table

    from lightrl.config.describe.documentation import documentation
    from lightrl.registry.classes import registry

    table = Table(kind.title, "from", "what it is", title_justify="left", show_lines=True)
    for distribution, cls in registry().of_kind(kind.title):
        table.add_row(cls.__name__, distribution, documentation(cls).summary)
    places = f"In a config: {', '.join(kind.places)}. " if kind.places else ""
    console.print(f"{kind.title}: {kind.description}\n{places}Hook: {kind.hook}.\n")
    console.print(table)
    console.print(f"\nOne in full: lightrl explain NAME. One of your own: lightrl plugins new my-idea --kind {kind.slug}")


def public_named(name: str) -> object | None:
    """The class or function with this name, whatever its letters, in `__all__` of a package; None if there is none."""
    from lightrl.registry.classes import registry

    packages = dict.fromkeys(record.module.partition(".")[0] for record in registry().records if not record.error)
    for module in map(import_module, packages):
        for public in getattr(module, "__all__", ()):
            if public.lower() == name.lower():
                found: object = getattr(module, public)
                return found
    return None


def print_public(console: Console, thing: object) -> None:
    """Print signature and documentation, and what a class has to offer, a line each.

    Args:
        console: to print on.
        thing: a class, a function or a value.
    """
    name, module = getattr(thing, "__name__", repr(thing)), getattr(thing, "__module__", "lightrl")
    console.print(f"{name} ({module})\n\n{inspect.getdoc(thing) or ''}")
    if not inspect.isclass(thing):
        if callable(thing):
            console.print(f"\n{name}{inspect.signature(thing)}")
        return
    said = inspect.getdoc(vars(thing).get("__init__"))
    if said and not said.startswith("Initialize self."):
        console.print(f"\n{said}")
    members = {key: value for key, value in inspect.getmembers(thing) if not key.startswith("_") and _ours(value)}
    for key, value in members.items():
        summary = (inspect.getdoc(value) or "").partition("\n")[0]
        mark = "  to be written: " if key in getattr(thing, "__abstractmethods__", ()) else "  "
        console.print(f"{mark}{key}{inspect.signature(value) if inspect.isfunction(value) else ''}  {summary}")


def _ours(member: object) -> bool:
    function = member.fget if isinstance(member, property) else member
    return inspect.isfunction(function) and function.__module__.startswith("lightrl")
