"""Whether two sides of `make bench CASE=curves` learn alike: the paired difference of the areas under their curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.evidence.paired_interval import mean_and_half

NARROW = 0.1
"""Largest width of the interval as a share of the peer's mean."""


@dataclass(frozen=True)
class Agreement:
    """A number of two sides, over seeds."""

    word: str
    """alike, different, or too wide an interval to say."""
    own: float
    """Mean area under lightrl's curve."""
    peer: float
    """Mean area under the peer's."""
    difference: float
    """Mean of own less peer, paired by seed."""
    half: float
    """Half the width of its 95 % interval."""
    seeds: int
    """Whose runs are complete on both sides."""


def area(curve: Sequence[tuple[float, float]]) -> float:
    """The area under a curve by trapezoids, divided by its width: the mean of the curve.

    Args:
        curve: points (x, y) with rising x; at least two.
    """
    strips = sum((right[0] - left[0]) * (left[1] + right[1]) / 2 for left, right in pairwise(curve))
    return strips / (curve[-1][0] - curve[0][0])


def agreement(own: Sequence[float], peer: Sequence[float]) -> Agreement:
    """Compare the areas of both sides.

    Args:
        own: one per seed.
        peer: likewise, in the same order.
    """
    difference, half = mean_and_half([a - b for a, b in zip(own, peer, strict=True)])
    means = [sum(side) / len(side) for side in (own, peer)]
    narrow = 2 * half < NARROW * abs(means[1])
    word = "different" if abs(difference) > half else "alike" if narrow else "too wide"
    return Agreement(word, *means, difference, half, len(own))
