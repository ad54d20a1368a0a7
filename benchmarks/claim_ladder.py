"""The ladder from GRPO to DAPO in the page of benchmarks/claims.py."""

from __future__ import annotations

from pathlib import Path

from claim_list import DAPO, LADDER, RUNG_HIGHER, Claim
from claim_verdict import Verdict, measured, verdict
from paired_interval import mean_and_half

COLUMNS = {"avg@32": ".1%", "late_entropy": ".3f", "late_length": ".2f", "late_truncation": ".2%", "completions": ",.0f"}
"""The measures of a rung, and how they are written."""


def ladder_rows(out: Path) -> list[str]:
    """The rungs as rows of a table, from the bottom.

    Args:
        out: folder of the runs.
    """
    names = list(LADDER)
    return [_row(name, before, out) for name, before in zip(names, [None, *names], strict=False)]


def _row(name: str, before: str | None, out: Path) -> str:
    found = Verdict("-")
    if before is not None:
        found = verdict(Claim(name, "raises avg@32", DAPO, name, before, "avg@32", "higher", RUNG_HIGHER), out)
    cells = [name, found.word, found.effect, *(_mean(measured(name, measure, out), form) for measure, form in COLUMNS.items())]
    return f"| {' | '.join(cells)} |"


def _mean(values: list[float] | None, form: str) -> str:
    if values is None:
        return "-"
    mean, half = mean_and_half(values)
    return f"{mean:{form}} ± {half:{form}}"
