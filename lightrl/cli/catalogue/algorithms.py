"""`lightrl algorithms`: the installed algorithms."""

from __future__ import annotations

import argparse
import json
import sys


def algorithms(words: list[str]) -> int:
    """Carry out `lightrl algorithms`."""
    parser = argparse.ArgumentParser(prog="lightrl algorithms", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these; none: every registered one")
    parser.add_argument("--json", action="store_true", help="print JSON in place of a table")
    options = parser.parse_args(words)
    from rich.console import Console

    from lightrl.config.describe.algorithms import algorithm_named, distribution_of, registered
    from lightrl.config.describe.documentation import documentation, folding_table
    from lightrl.registry.classes import registry

    chosen = [algorithm_named(name).cls for name in options.names] or [cls for _, cls in registered()]
    about = [(cls, documentation(cls)) for cls in chosen]
    rows = [{"name": cls.__name__, "distribution": distribution_of(cls), "summary": d.summary, "source": d.source} for cls, d in about]
    if options.json:
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
        return 0
    table = folding_table("algorithm", "from", "what it is", "source", title="algorithms")
    for row in rows:
        table.add_row(*row.values())
    objectives = ", ".join(cls.__name__ for _, cls in registry().of_kind("objective"))
    console = Console(markup=False, highlight=False)
    console.print(table)
    console.print("One in full: lightrl explain NAME. Two side by side: lightrl diff NAME NAME.")
    console.print(f"Objectives on given answers (PreferenceOptimization): {objectives}. About them: lightrl explain objective")
    return 0
