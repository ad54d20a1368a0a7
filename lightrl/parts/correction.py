"""Rollout corrections: the engine that sampled and the trainer disagree about the same weights; what then?"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import torch
from torch import Tensor

from lightrl.ops.moments import row_sum
from lightrl.parts.kl import LIMIT
from lightrl.parts.step_part import StepPart
from lightrl.ranges import NonNegative, Positive
from lightrl.types import Statistic, WithStatistics


class RolloutCorrection(StepPart):
    """Weights the policy loss by how likely the trainer would have sampled what the engine sampled.

    The weights are those of the rows, whatever the policy has become since: `prepare` of a correction sees no current policy.
    """

    reads_policy = False

    @abstractmethod
    def weights(self, old_logprobs: Tensor, rollout_logprobs: Tensor, mask: Tensor) -> Tensor | WithStatistics:
        """`[n, L]` detached weights of the policy loss (not of KL, nor of other terms).

        Args:
            old_logprobs: `[n, L]` recomputed by the trainer.
            rollout_logprobs: `[n, L]` reported by the engine.
            mask: `[n, L]` bool, tokens that carry a loss.
        """


class TruncatedImportance(RolloutCorrection):
    """Importance weights cut at a cap, and raised to a floor where one is given.

    w = max(low, min(rho, cap)), rho = exp(old - rollout) per token, or exp(sum_t (old - rollout)) per row.

    Source: Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy RL training".
    """

    def __init__(self, cap: Positive = 2.0, level: Literal["token", "sequence"] = "token", low: NonNegative = 0.0) -> None:
        """
        Args:
            cap: largest weight; > 0.
            level: one weight per token, or one per row (unbiased, high variance).
            low: smallest weight; at least 0 and not above the cap. 0: no floor.

        Raises:
            ValueError: a bound outside its range, or low above cap.
        """
        if low > cap:
            raise ValueError(f"TruncatedImportance needs low <= cap, got low={low}, cap={cap}")
        self.cap, self.level, self.low = cap, level, low

    def weights(self, old_logprobs: Tensor, rollout_logprobs: Tensor, mask: Tensor) -> WithStatistics:
        """As `RolloutCorrection.weights`; `correction/clipped` is the share of tokens whose weight was cut."""
        rho = _importance(old_logprobs, rollout_logprobs, mask, self.level)
        return _reported(rho.clamp(self.low, self.cap), rho, "correction/clipped")


class MaskedImportance(RolloutCorrection):
    """Importance weights, 0 outside a band.

    w = rho if low <= rho <= high, else 0.

    Source: Ling Team 2025 (IcePop), arXiv:2510.18855.
    """

    def __init__(self, low: NonNegative = 0.5, high: Positive = 2.0, level: Literal["token", "sequence"] = "token") -> None:
        """
        Args:
            low: smallest weight that is kept; at least 0.
            high: largest weight that is kept; above low.
            level: one weight per token, or one per row.

        Raises:
            ValueError: the band is empty.
        """
        if not low < high:
            raise ValueError(f"MaskedImportance needs low < high, got low={low}, high={high}")
        self.low, self.high, self.level = low, high, level

    def weights(self, old_logprobs: Tensor, rollout_logprobs: Tensor, mask: Tensor) -> WithStatistics:
        """As `RolloutCorrection.weights`; `correction/masked` is the share of tokens whose weight became 0."""
        rho = _importance(old_logprobs, rollout_logprobs, mask, self.level)
        return _reported(torch.where((rho >= self.low) & (rho <= self.high), rho, 0.0), rho, "correction/masked")


def _reported(weights: Tensor, rho: Tensor, changed: str) -> WithStatistics:
    statistics: dict[str, Tensor | Statistic] = {
        "correction/rho_mean": rho,
        "correction/rho_max": Statistic(rho, "max"),
        "correction/rho_min": Statistic(rho, "min"),
        changed: (weights != rho).double(),
    }
    return WithStatistics(weights, statistics)


def _importance(old: Tensor, rollout: Tensor, mask: Tensor, level: str) -> Tensor:
    difference = (old - rollout).detach()
    if level == "sequence":
        difference = row_sum(difference, mask)[:, None].expand_as(old)
    return difference.clamp(-LIMIT, LIMIT).exp()
