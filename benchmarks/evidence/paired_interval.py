"""The 95 % interval of a mean over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy
from scipy import stats


def mean_and_half(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and half the width of its 95 % interval by Student's t.

    Args:
        values: one per seed; at least two.
    """
    half = stats.t.ppf(0.975, len(values) - 1) * numpy.std(values, ddof=1) / math.sqrt(len(values))
    return sum(values) / len(values), float(half)
