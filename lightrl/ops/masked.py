"""Reductions over the positions a mask selects; what is masked is selected out, never multiplied (NaN * 0 = NaN)."""

import torch
from torch import Tensor

from lightrl.ops.moments import moments
from lightrl.ranks import ALONE, Ranks


def masked_sum(values: Tensor, mask: Tensor) -> Tensor:
    """Sum over the selected positions; a scalar, 0 if nothing is selected."""
    return torch.where(mask, values, torch.zeros_like(values)).sum()


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the selected positions; a scalar, 0 if nothing is selected."""
    return masked_sum(values, mask) / mask.sum().clamp(min=1)


def row_sum(values: Tensor, mask: Tensor) -> Tensor:
    """`[n]` sums of the selected positions of each row of `[n, L]`."""
    return torch.where(mask, values, torch.zeros_like(values)).sum(1)


def row_mean(values: Tensor, mask: Tensor) -> Tensor:
    """`[n]` means of the selected positions of each row of `[n, L]`; 0 for a row without any."""
    return row_sum(values, mask) / mask.sum(1).clamp(min=1)


def last_position(mask: Tensor) -> Tensor:
    """`[n]` index of each row's last selected position; -1 for a row without any."""
    positions = torch.arange(mask.shape[1], device=mask.device)
    return torch.where(mask, positions, -1).amax(1) if mask.shape[1] else mask.new_full((mask.shape[0],), -1, dtype=torch.long)


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
