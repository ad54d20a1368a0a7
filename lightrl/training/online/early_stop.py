"""The early stop: a minibatch makes no step, and the rest of its rollout is left, once the policy has moved too far."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from lightrl.strategies.adapter import StrategyAdapter
from lightrl.training.reports.statistics import StatisticsLedger


@dataclass(frozen=True)
class EarlyStop:
    """Vetoes a step whose KL(old || new), mean over tokens of all ranks, exceeds 1.5 times a limit."""

    stop_kl: float | None
    """The limit in nats; None: never."""
    adapter: StrategyAdapter
    """Sums numbers over ranks."""

    def __call__(self, step: StatisticsLedger) -> bool:
        """Whether the policy has moved too far, by the statistics of this rank's micro-batches."""
        if self.stop_kl is None:
            return False
        kl, tokens = self.adapter.total(torch.tensor(step.local("approx_kl"), dtype=torch.float64)).tolist()
        return bool(kl > 1.5 * self.stop_kl * tokens)
