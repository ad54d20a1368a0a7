"""The ladder from GRPO to DAPO in the page of benchmarks/evidence/claims.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.evidence.claim_list import DAPO, LADDER, RUNG_HIGHER, Claim
from benchmarks.evidence.claim_verdict import Verdict, measured, verdict
from benchmarks.evidence.paired_interval import mean_and_half

COLUMNS = {"avg@32": ".1%", "late_entropy": ".3f", "late_length": ".2f", "late_truncation": ".2%", "completions": ",.0f"}
"""The measures of a rung, and how they are written."""


@dataclass(frozen=True)
class Rung:
    """A rung, as its runs left it."""

    name: str
    verdict: Verdict
    """On its avg@32 beside that of the rung before; `-` of the first."""
    measures: Mapping[str, list[float] | None]
    """Those of `COLUMNS` by name, one number per seed; None while a run is missing."""


def rungs_of(out: Path) -> list[Rung]:
    """The rungs, from the bottom.

    Args:
        out: folder of the runs.
    """
    names = list(LADDER)
    return [_rung(name, before, out) for name, before in zip(names, [None, *names], strict=False)]


def ladder_rows(rungs: Sequence[Rung]) -> list[str]:
    """The rungs as rows of a table."""
    return [
        f"| {rung.name} | {rung.verdict.word} | {rung.verdict.effect} | "
        + " | ".join(_mean(rung.measures[measure], form) for measure, form in COLUMNS.items())
        + " |"
        for rung in rungs
    ]


def _rung(name: str, before: str | None, out: Path) -> Rung:
    found = Verdict("-")
    if before is not None:
        found = verdict(Claim(name, "raises avg@32", DAPO, name, before, "avg@32", "higher", RUNG_HIGHER), out)
    return Rung(name, found, {measure: measured(name, measure, out) for measure in COLUMNS})


def _mean(values: list[float] | None, form: str) -> str:
    if values is None:
        return "-"
    mean, half = mean_and_half(values)
    return f"{mean:{form}} ± {half:{form}}"
