"""Statistics of each group, given back to every row of it."""

from dataclasses import dataclass

import torch
from torch import Tensor

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
