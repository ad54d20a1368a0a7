"""Whether the policy has moved so far that the rest of a rollout is left."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from lightrl.training.statistics import StatisticsLedger


def moved_too_far(step: StatisticsLedger, stop_kl: float | None, total: Callable[[Tensor], Tensor]) -> bool:
    """Whether a step's KL(old || new), mean over tokens of all ranks, exceeds 1.5 times the limit.

    Args:
        step: statistics of this rank's micro-batches.
        stop_kl: the limit in nats; None: never.
        total: sums numbers over ranks.
    """
    if stop_kl is None:
        return False
    kl, count = total(torch.stack(step.local("approx_kl"))).tolist()
    return bool(kl > 1.5 * stop_kl * count)
