"""Reads the table that Lightning's CSVLogger has left in the folder of a run."""

from __future__ import annotations

import csv
from pathlib import Path

from lightrl_runs.report.run_log import RunLog, is_validation

NAME = "metrics.csv"
NO_NUMBER = {"step", "epoch"}
"""Columns that say where a row stands."""


def read_table(file: Path) -> RunLog:
    """The log of a run from its table; it has no texts, no histograms and no times.

    Args:
        file: `metrics.csv`; its last line may be cut off, as a killed run leaves it.
    """
    log, begun = RunLog(last_entry=file.stat().st_mtime), False
    with file.open(newline="") as table:
        for line, row in enumerate(csv.DictReader(table), start=2):
            try:
                step = int(row["step"])
                values = {name: float(cell) for name, cell in row.items() if cell and name not in NO_NUMBER}
            except (TypeError, ValueError, KeyError):
                log.damaged.append(f"{file.name}, line {line}: not a row of numbers, left out")
                continue
            begun = begun or not all(map(is_validation, values))
            for name, value in values.items():
                before = is_validation(name) and not begun and step == 0
                log.numbers.setdefault(name, {})[0 if before else step + 1] = value
    return log
