"""Count, mean, spread and extremes of numbers that several processes hold."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from lightrl.ranks import ALONE, Ranks


@dataclass(frozen=True)
class Moments:
    """Of all numbers, in float64; 0 where there is none."""

    count: int
    """Numbers."""
    mean: float
    """Their mean."""
    squares: float
    """Sum of (x - mean)^2."""
    low: float
    """The smallest."""
    high: float
    """The largest."""

    def variance(self, ddof: int) -> float:
        """The squares divided by count - ddof, which counts as 1 at least."""
        return self.squares / max(self.count - ddof, 1)

    def constant(self, tolerance: float = 0.0) -> bool:
        """Fewer than two numbers, or largest and smallest differ by at most this, relative to the larger magnitude."""
        return self.count < 2 or self.high - self.low <= tolerance * max(abs(self.high), abs(self.low))


def moments(values: Tensor, ranks: Ranks = ALONE) -> Moments:
    """The moments of the numbers of all ranks; collective.

    squares = sum_i [squares_i + n_i (mean_i - mean)^2] over ranks i (Chan et al. 1979).

    Args:
        values: those of this rank, any shape, perhaps none; no NaN.
        ranks: that hold the others.
    """
    found = [one for one in ranks.gather(_own(values)) if one.count]
    if len(found) < 2:
        return found[0] if found else Moments(0, 0.0, 0.0, 0.0, 0.0)
    count = sum(one.count for one in found)
    mean = sum(one.count * one.mean for one in found) / count
    squares = sum(one.squares + one.count * (one.mean - mean) ** 2 for one in found)
    return Moments(count, mean, squares, min(one.low for one in found), max(one.high for one in found))


def _own(values: Tensor) -> Moments:
    if not values.numel():
        return Moments(0, 0.0, 0.0, 0.0, 0.0)
    x = values.double()
    return Moments(x.numel(), float(x.mean()), float(((x - x.mean()) ** 2).sum()), float(x.min()), float(x.max()))
