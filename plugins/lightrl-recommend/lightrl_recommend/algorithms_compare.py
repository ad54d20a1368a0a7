"""`lightrl algorithms --compare`: what sets the installed algorithms apart."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from lightrl.config import ConfigError, algorithm_named, folding_table, registered
from lightrl_recommend.comparison import QUESTIONS, Facts, facts_of


def algorithms_compare(words: list[str]) -> int:
    """Carry out `lightrl algorithms --compare`."""
    parser = argparse.ArgumentParser(prog="lightrl algorithms", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these; none: every registered one")
    parser.add_argument("--compare", action="store_true", help="one table of what sets them apart, read from their parts")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON in place of a table")
    form.add_argument("--markdown", action="store_true", help="print a table in Markdown")
    options = parser.parse_args(words)
    facts: list[Facts] = []
    for cls in [algorithm_named(name).cls for name in options.names] or [cls for _, cls in registered()]:
        try:
            facts.append(facts_of(cls))
        except (ConfigError, TypeError) as error:
            sys.stderr.write(f"{cls.__name__} is left out, since its defaults do not make an algorithm: {error}\n")
    if options.json:
        sys.stdout.write(json.dumps([asdict(f) for f in facts], indent=2) + "\n")
    elif options.markdown:
        rows = [["algorithm", *QUESTIONS.values()], ["---"] * (len(QUESTIONS) + 1)]
        rows += [[f"`{f.algorithm}`", *(getattr(f, name).replace("|", "\\|") for name in QUESTIONS)] for f in facts]
        sys.stdout.writelines(f"| {' | '.join(row)} |\n" for row in rows)
    elif facts:
        _print(facts)
    return 0


def _print(facts: list[Facts]) -> None:
    """A row for each algorithm with the answers in which they differ, and once what is the same for all."""
    from rich.console import Console

    differing = [name for name in QUESTIONS if len(facts) == 1 or len({getattr(f, name) for f in facts}) > 1]
    table = folding_table("algorithm", "what sets it apart", show_lines=True)
    for f in facts:
        table.add_row(f.algorithm, "\n".join(f"{QUESTIONS[name]}: {getattr(f, name)}" for name in differing))
    same = [f"{heading}: {getattr(facts[0], name)}" for name, heading in QUESTIONS.items() if name not in differing]
    console = Console(markup=False, highlight=False)
    console.print(table)
    console.print(f"The same for all: {'; '.join(same) or 'nothing'}.\nWhich arguments differ: lightrl diff NAME NAME.")
