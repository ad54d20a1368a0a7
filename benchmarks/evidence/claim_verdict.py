"""What the runs of benchmarks/evidence/claims.py say of a claim."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lightrl_runs.report.run_folder import read_run

from benchmarks.evidence.claim_list import Claim
from benchmarks.evidence.claim_measures import MEASURES
from benchmarks.evidence.paired_interval import mean_and_half

SEEDS = (0, 1, 2, 3, 4)
DONE = "folder.json"
"""Names the log of a run, once it is complete."""


@dataclass(frozen=True)
class Spread:
    """A mean over seeds."""

    mean: float
    low: float
    """Of its 95 % interval; of a factor the smallest."""
    high: float
    """Likewise the largest."""


@dataclass(frozen=True)
class Verdict:
    """The result of a claim."""

    word: str
    """seen, not seen, opposite or not run."""
    effect: str = "-"
    """Its mean and interval, or the range of a factor."""
    spread: Spread | None = None
    """The same in numbers, as a share of the mean without the mechanism; of a factor less 1."""
    with_it: str = "-"
    """Mean of the measure with the mechanism."""
    without: str = "-"
    """Mean of the measure without it."""


def verdict(claim: Claim, out: Path) -> Verdict:
    """Compare both sides of a claim, if all of their runs are there."""
    having, without = (measured(side, claim.measure, out) for side in (claim.side, claim.without))
    return Verdict("not run") if having is None or without is None else compared(claim, having, without)


def measured(side: str, measure: str, out: Path) -> list[float] | None:
    """A measure of each seed, or None while a run of the side is missing."""
    files = [out / f"{side}-{seed}" / DONE for seed in SEEDS]
    if not all(file.exists() for file in files):
        return None
    return [MEASURES[measure][1](read_run(Path(json.loads(file.read_text()))).log) for file in files]


def compared(claim: Claim, having: Sequence[float], without: Sequence[float]) -> Verdict:
    """The verdict on two measures of each seed.

    Args:
        claim: says what was expected.
        having: with the mechanism.
        without: without it, in the same order.
    """
    means = [sum(side) / len(side) for side in (having, without)]
    shown = {"with_it": f"{means[0]:.4g}", "without": f"{means[1]:.4g}"}
    if claim.expected == "factor":
        factors = [a / b for a, b in zip(having, without, strict=True)]
        seen = all(abs(factor / claim.factor - 1) <= claim.threshold for factor in factors)
        effect = f"times {min(factors):.6f} to {max(factors):.6f}"
        spread = Spread(sum(factors) / len(factors) - 1, min(factors) - 1, max(factors) - 1)
        return Verdict("seen" if seen else "not seen", effect, spread, **shown)
    sign = 1.0 if claim.expected == "higher" else -1.0
    one = spread_of([sign * (a - b) / abs(means[1]) if means[1] else math.nan for a, b in zip(having, without, strict=True)])
    word = "not seen"
    if one.low > 0 and one.mean >= claim.threshold:
        word = "seen"
    elif one.high < 0 and one.mean <= -claim.threshold:
        word = "opposite"
    return Verdict(word, f"{one.mean:+.1%} ({one.low:+.1%} to {one.high:+.1%})", one, **shown)


def spread_of(values: Sequence[float]) -> Spread:
    """The mean over seeds and its 95 % interval.

    Args:
        values: one per seed; at least two.
    """
    mean, half = mean_and_half(values)
    return Spread(mean, mean - half, mean + half)
