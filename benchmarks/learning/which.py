"""Trains small tasks whose best score is known by every online algorithm, with equal completions, and writes docs/which_algorithm.md:

    make learn TASK=which

Every run of a task makes as many completions, whatever for. Each algorithm has the better of two learning rates: the score of a seed is
that of the rate which is better with the other seeds. The result of a run is a line of runs/which/results.jsonl, and a run whose line is
there is not repeated: the command may be stopped at any time, and goes on where it was. `--only` and `--algorithms` choose runs; `--page`
runs nothing.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.learning.which_algorithms import ALGORITHMS
from benchmarks.learning.which_page import write_page
from benchmarks.learning.which_run import trained
from benchmarks.learning.which_tasks import TASKS

RESULTS = Path("runs/which/results.jsonl")
SEEDS = (0, 1, 2, 3, 4)


class Cell(NamedTuple):
    """A run."""

    task: str
    algorithm: str
    rate: float
    seed: int


def main() -> None:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=TASKS, default=list(TASKS), metavar="TASK", help=f"of: {', '.join(TASKS)}")
    parser.add_argument(
        "--algorithms", nargs="+", choices=ALGORITHMS, default=list(ALGORITHMS), metavar="NAME", help="every one by default"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="file of results, to which a line is added for each run")
    parser.add_argument("--page", action="store_true", help="write the page from the results that are there")
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    found = results(arguments.out)
    for cell in () if arguments.page else missing(arguments.only, arguments.algorithms, found):
        begun = time.process_time()
        found[cell] = {**trained(*cell), "seconds": round(time.process_time() - begun, 2)}
        with arguments.out.open("a") as file:
            file.write(json.dumps({**cell._asdict(), **found[cell]}) + "\n")
        print(f"{cell.task}, {cell.algorithm}, {cell.rate:g}, seed {cell.seed}: {found[cell]['after']:.3f}", flush=True)
    write_page(measured(found))


def missing(tasks: list[str], algorithms: list[str], found: Mapping[Cell, Any]) -> Iterator[Cell]:
    """The runs that are not there yet, in an order in which a start serves many; `found` grows meanwhile."""
    for task, seed, algorithm in itertools.product(tasks, SEEDS, algorithms):
        yield from (cell for rate in TASKS[task]().rates if (cell := Cell(task, algorithm, rate, seed)) not in found)


def best_rate(scores: Mapping[float, Mapping[int, float]], without: int | None = None) -> float:
    """The rate with the best mean score.

    Args:
        scores: by rate and seed.
        without: the seed that has no say; None: all have.
    """
    return max(scores, key=lambda rate: sum(score for seed, score in scores[rate].items() if seed != without))


def results(file: Path) -> dict[Cell, dict[str, Any]]:
    """Those that are there, a line of the file for each."""
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return {Cell(row.pop("task"), row.pop("algorithm"), row.pop("rate"), row.pop("seed")): row for row in rows}


def measured(found: Mapping[Cell, Any]) -> list[dict[str, Any]]:
    """A row for each task and algorithm of which every run is there."""
    rows = []
    for task, algorithm in itertools.product(TASKS, ALGORITHMS):
        cells = {rate: {seed: Cell(task, algorithm, rate, seed) for seed in SEEDS} for rate in TASKS[task]().rates}
        if all(cell in found for of_rate in cells.values() for cell in of_rate.values()):
            after = {rate: {seed: found[cell]["after"] for seed, cell in of_rate.items()} for rate, of_rate in cells.items()}
            rate, chosen = best_rate(after), [found[cells[best_rate(after, seed)][seed]] for seed in SEEDS]
            scores = {name: [round(cell[name], 4) for cell in chosen] for name in ("before", "after")}
            rows.append({"task": task, "algorithm": algorithm, "rate": rate, **scores})
    return rows


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
