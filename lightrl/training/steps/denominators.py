"""The denominators of a loss: what one rank counts, to be summed over all of them."""

from __future__ import annotations

import torch
from torch import Tensor


def local_denominators(token_weight: Tensor, group: Tensor) -> Tensor:
    """`[4]` float64: this rank's share of the fields of `Denominators`, to be summed over ranks."""
    filled = token_weight.sum(1) > 0
    numbers = (token_weight.double().sum(), filled.sum(), torch.tensor(len(filled)), torch.tensor(len(torch.unique(group[filled]))))
    return torch.stack([number.double().cpu() for number in numbers])
