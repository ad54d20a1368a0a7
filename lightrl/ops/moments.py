"""Sums, means and spreads: of numbers that several processes hold, of what a mask selects, and of each group of rows.

Masked values are selected out, never multiplied: NaN times 0 is NaN.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
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


def masked_sum(values: Tensor, mask: Tensor) -> Tensor:
    """Sum over the selected positions; a scalar, 0 if nothing is selected."""
    return torch.where(mask, values, torch.zeros_like(values)).sum()


def row_sum(values: Tensor, mask: Tensor) -> Tensor:
    """`[n]` sums of the selected positions of each row of `[n, L]`."""
    return torch.where(mask, values, torch.zeros_like(values)).sum(1)


def row_mean(values: Tensor, mask: Tensor) -> Tensor:
    """`[n]` means of the selected positions of each row of `[n, L]`; 0 for a row without any."""
    return row_sum(values, mask) / mask.sum(1).clamp(min=1)


def row_values(values: Tensor) -> Tensor:
    """`[N]` as it is, or the sums of the rows of `[N, L]`; NaN positions are left out, and a row of nothing else is NaN."""
    return values if values.dim() == 1 else torch.where(values.isnan().all(1), torch.nan, values.nansum(1))


def whiten(values: Tensor, mask: Tensor, ddof: int = 1, eps: float = 1e-8, shift_mean: bool = True, ranks: Ranks = ALONE) -> Tensor:
    """Zero mean and unit variance over the selected positions; collective.

    y = (x - mean) / sqrt(var + eps), plus the mean again unless `shift_mean`.

    Args:
        values: any shape; statistics are taken in float64.
        mask: the same shape, bool; other positions become 0.
        ddof: 1 for the sample variance, 0 for the population's.
        eps: added to the variance, inside the square root.
        shift_mean: False keeps the mean where it was.
        ranks: whose positions are counted too.

    Returns:
        The whitened values; all 0 where at most `ddof` positions are selected or all selected values are equal.
    """
    x = values[mask].double()
    out = torch.zeros_like(values)
    of_all = moments(x, ranks)
    if of_all.count <= ddof or of_all.high == of_all.low:
        return out if shift_mean else torch.where(mask, torch.tensor(of_all.mean).to(out), out)
    centred = (x - of_all.mean) / (of_all.variance(ddof) + eps) ** 0.5
    out[mask] = (centred if shift_mean else centred + of_all.mean).to(values.dtype)
    return out


TOLERANCE = 1e-6
"""Values that differ by at most this, relative to the larger magnitude, are one: float noise is not a signal."""


@dataclass(frozen=True)
class GroupStatistics:
    """Per row, what its group looks like; float64, counting valid rows only."""

    count: Tensor
    """`[N]` valid rows of the group."""
    mean: Tensor
    """`[N]`; 0 for a group without valid rows."""
    std: Tensor
    """`[N]`; 0 for a group with at most `ddof` valid rows, and exactly 0 for one with zero variance."""
    zero_variance: Tensor
    """`[N]` bool: fewer than two valid rows, or all valid values equal within the tolerance."""


def group_statistics(values: Tensor, group: Tensor, valid: Tensor, ddof: int = 1, tolerance: float = TOLERANCE) -> GroupStatistics:
    """Count, mean and standard deviation of each group.

    Args:
        values: `[N]`; anything where `valid` is False.
        group: `[N]` int64, any numbering.
        valid: `[N]` bool, rows that count.
        ddof: 1 for the sample's standard deviation, 0 for the population's.
        tolerance: a group whose largest and smallest values differ by at most this, relative to the larger magnitude, is
            without variance: float noise is not a signal (0.1 + 0.2 and 0.3 are one reward).
    """
    _, index = torch.unique(group, return_inverse=True)
    groups = int(index.max()) + 1 if len(index) else 0
    x = torch.where(valid, values.double(), 0.0)

    def per_group(row_values: Tensor) -> Tensor:
        return torch.zeros(groups, dtype=torch.float64, device=values.device).index_add(0, index, row_values)

    count = per_group(valid.double())
    mean = per_group(x) / count.clamp(min=1)
    squares = per_group(torch.where(valid, (x - mean[index]) ** 2, 0.0))
    std = (squares / (count - ddof).clamp(min=1)).sqrt()
    top = torch.full((groups,), -torch.inf, dtype=torch.float64, device=values.device)
    high = top.scatter_reduce(0, index, torch.where(valid, x, -torch.inf), "amax")
    low = -top.scatter_reduce(0, index, torch.where(valid, -x, -torch.inf), "amax")
    zero_variance = (count < 2) | (high - low <= tolerance * torch.maximum(high.abs(), low.abs()))
    std = torch.where(zero_variance, 0.0, std)
    return GroupStatistics(count[index], mean[index], std[index], zero_variance[index])


def centered(values: Tensor, group: Tensor, valid: Tensor) -> Tensor:
    """Each value of `[N]` less the mean of its group, in float64; 0 on rows that do not count."""
    return torch.where(valid, values.double() - group_statistics(values, group, valid).mean, 0.0)
