"""The runs of a line as one curve: their mean, and the band from their lowest to their highest value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lightrl_runs.report.run_log import Series

MOST_POINTS = 300
"""Points of a curve; of more, neighbours are put together."""


@dataclass(frozen=True)
class Curve:
    """A curve with a band."""

    x: list[float]
    """Rollouts or steps."""
    mean: list[float]
    """Over runs, and over the rollouts that were put together in a point."""
    low: list[float]
    """The lowest of the values of a point."""
    high: list[float]
    """The highest of them."""
    together: int
    """Rollouts in a point."""


def merged(series: Sequence[Series[float]]) -> Curve:
    """The mean and the band of several runs, at the rollouts that all of them have; of a killed run the others are shown alone.

    Args:
        series: of each run; values that are not finite are left out.
    """
    finite = [{x: value for x, value in one.items() if math.isfinite(value)} for one in series]
    shared = sorted(set[int].intersection(*map(set, finite))) if finite else []
    together = -(-len(shared) // MOST_POINTS) or 1
    points = [shared[i : i + together] for i in range(0, len(shared), together)]
    values = [[one[x] for one in finite for x in point] for point in points]
    return Curve(
        [sum(point) / len(point) for point in points],
        [math.fsum(point) / len(point) for point in values],
        [min(point) for point in values],
        [max(point) for point in values],
        together,
    )


def ends(series: Sequence[Series[float]]) -> str:
    """The mean of the last finite values of several runs, with the range between them: `0.91 (0.88 to 0.94)`."""
    lasts = [one[max(finite)] for one in series if (finite := [x for x, value in one.items() if math.isfinite(value)])]
    if not lasts:
        return "not finite" if any(series) else ""
    mean = f"{math.fsum(lasts) / len(lasts):.4g}"
    return mean if min(lasts) == max(lasts) else f"{mean} ({min(lasts):.4g} to {max(lasts):.4g})"
