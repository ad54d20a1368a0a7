"""Rejection of completions on which engine and trainer disagree, by the geometric mean of their ratio."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from lightrl import Minibatch, RolloutCorrection, WithStatistics


class GeometricRejection(RolloutCorrection):
    """Rows whose mean ratio of trainer to engine leaves a band carry no loss.

    w_t = v_t where low <= exp((1/L) sum_t (old_t - rollout_t)) <= high, else 0, with v = 1 or the weights of another correction, and L the
    tokens of the row that carry a loss. The band does not depend on the length of a row, as one for the product of the ratios would.

    Source: Liu et al. 2025, "When speed kills stability"; verl's `rollout_rs: geometric`, which advises bounds of 1.0002 to 1.001.
    """

    def __init__(self, low: float = 0.999, high: float = 1.001, importance: RolloutCorrection | None = None) -> None:
        """
        Args:
            low: smallest mean ratio that is kept; in [0, 1].
            high: largest mean ratio that is kept; at least 1.
            importance: gives the weights of the rows that are kept; null: 1 each.

        Raises:
            ValueError: a bound outside its range.
        """
        if not 0 <= low <= 1 <= high < float("inf"):
            raise ValueError(f"GeometricRejection needs 0 <= low <= 1 <= high, got low={low}, high={high}")
        self.low, self.high, self.importance = low, high, importance
        if importance is not None:
            self.needs_extras, self.prepares = importance.needs_extras, importance.prepares
            self.extras_per_token = importance.extras_per_token

    def prepare(self, minibatch: Minibatch) -> Mapping[str, Tensor]:
        return {} if self.importance is None else self.importance.prepare(minibatch)

    def weights(self, old_logprobs: Tensor, rollout_logprobs: Tensor, mask: Tensor) -> WithStatistics:
        """As `RolloutCorrection.weights`; `correction/rejected` is the share of rows that are left out."""
        difference = torch.where(mask, (old_logprobs - rollout_logprobs).detach(), 0.0).sum(1)
        ratio = (difference / mask.sum(1).clamp(min=1)).exp()
        kept = (ratio >= self.low) & (ratio <= self.high)
        inner: Tensor | WithStatistics = torch.ones_like(old_logprobs)
        if self.importance is not None:
            inner = self.importance.given(self.extras).weights(old_logprobs, rollout_logprobs, mask)
        weights, statistics = (inner.value, inner.statistics) if isinstance(inner, WithStatistics) else (inner, {})
        there = mask.any(1)
        ours = {
            "correction/geometric": torch.where(there, ratio, torch.nan),
            "correction/rejected": torch.where(there, (~kept).double(), torch.nan),
        }
        return WithStatistics(torch.where(kept[:, None], weights, 0.0), {**statistics, **ours})
