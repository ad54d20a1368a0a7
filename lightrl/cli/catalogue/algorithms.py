"""`lightrl algorithms`: the installed algorithms and their differences."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from lightrl.algorithms.algorithm import Algorithm
    from lightrl.cli.catalogue.comparison import Facts


def algorithms(words: list[str]) -> int:
    """Carry out `lightrl algorithms`."""
    options = _read(words)
    from lightrl.config.describe.algorithms import algorithm_named, registered

    chosen = [algorithm_named(name).cls for name in options.names] or [cls for _, cls in registered()]
    if not (options.compare or options.markdown):
        return _list(chosen, options.json)
    facts, refused = _compared(chosen)
    if options.json:
        sys.stdout.write(json.dumps([asdict(f) for f in facts], indent=2) + "\n")
    elif options.markdown:
        sys.stdout.write(markdown(facts))
    elif facts:
        _print_comparison(facts)
    sys.stderr.writelines(f"{line}\n" for line in refused)
    return 0


def markdown(facts: list[Facts]) -> str:
    """The comparison as a Markdown table, one row per algorithm."""
    from lightrl.cli.catalogue.comparison import QUESTIONS

    lines = [["algorithm", *QUESTIONS.values()], ["---"] * (len(QUESTIONS) + 1)]
    lines += [[f"`{f.algorithm}`", *(getattr(f, name).replace("|", "\\|") for name in QUESTIONS)] for f in facts]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _read(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="lightrl algorithms", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these; none: every registered one")
    parser.add_argument("--compare", action="store_true", help="one table of what sets them apart, read from their parts")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON in place of a table")
    form.add_argument("--markdown", action="store_true", help="print the comparison as a Markdown table")
    return parser.parse_args(words)


def _list(chosen: list[type[Algorithm]], as_json: bool) -> int:
    from lightrl.config.describe.algorithms import distribution_of
    from lightrl.config.describe.documentation import documentation, folding_table
    from lightrl.registry.classes import registry

    about = [(cls, documentation(cls)) for cls in chosen]
    rows = [{"name": cls.__name__, "distribution": distribution_of(cls), "summary": d.summary, "source": d.source} for cls, d in about]
    if as_json:
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
        return 0
    table = folding_table("algorithm", "from", "what it is", "source", title="algorithms")
    for row in rows:
        table.add_row(*row.values())
    objectives = ", ".join(cls.__name__ for _, cls in registry().of_kind("objective"))
    _print(
        table,
        "Compare them: lightrl algorithms --compare. One in full: lightrl explain NAME.\n"
        f"Objectives on given answers (PreferenceOptimization): {objectives}. About them: lightrl explain objective",
    )
    return 0


def _compared(chosen: list[type[Algorithm]]) -> tuple[list[Facts], list[str]]:
    """The facts of every algorithm that its defaults suffice to build, and a line for each of the others."""
    from lightrl.cli.catalogue.comparison import facts_of
    from lightrl.config.read.refusals import ConfigError

    facts, refused = [], []
    for cls in chosen:
        try:
            facts.append(facts_of(cls))
        except (ConfigError, TypeError) as error:
            refused.append(f"{cls.__name__} is left out, since its defaults do not make an algorithm: {error}")
    return facts, refused


def _print_comparison(facts: list[Facts]) -> None:
    """A row for each algorithm with the answers in which they differ, and once what is the same for all."""
    from lightrl.cli.catalogue.comparison import QUESTIONS
    from lightrl.config.describe.documentation import folding_table

    differing = [name for name in QUESTIONS if len(facts) == 1 or len({getattr(f, name) for f in facts}) > 1]
    table = folding_table("algorithm", "what sets it apart", show_lines=True)
    for f in facts:
        table.add_row(f.algorithm, "\n".join(f"{QUESTIONS[name]}: {getattr(f, name)}" for name in differing))
    same = [f"{heading}: {getattr(facts[0], name)}" for name, heading in QUESTIONS.items() if name not in differing]
    _print(table, f"The same for all: {'; '.join(same) or 'nothing'}.\nWhich arguments differ: lightrl diff NAME NAME.")


def _print(table: Table, hint: str) -> None:
    from rich.console import Console

    console = Console(markup=False, highlight=False)
    console.print(table)
    console.print(hint)
