"""Rollout corrections whose weights have the mean 1 over a step."""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from lightrl import Minibatch, RolloutCorrection, Statistic, TruncatedImportance, WithStatistics, moments

MEAN = "correction_mean"


class UnitMean(RolloutCorrection):
    """The weights of another correction, divided by their mean.

    w_t = v_t / mean v, with v of the other correction and the mean over the optimizer step: all of its micro-batches and all ranks.
    Where every v is 0 the weights stay 0.

    Source: self-normalised importance sampling; verl's `rollout_is_batch_normalize`, which divides after the cap too.
    """

    def __init__(self, correction: RolloutCorrection = TruncatedImportance(), level: Literal["token", "sequence"] = "token") -> None:
        """
        Args:
            correction: gives the weights that are divided.
            level: the mean counts each token that carries a loss, or each row once, with the mean weight of its tokens.

        Raises:
            ValueError: the other correction divides by a mean as well.
        """
        if MEAN in correction.gives:
            raise ValueError(f"UnitMean divides weights by their mean, and {type(correction).__name__} within it does so already")
        self.correction, self.level = correction, level

    @property
    def gives(self) -> frozenset[str]:
        return self.correction.gives | {MEAN}

    def prepare(self, minibatch: Minibatch) -> Mapping[str, Tensor]:
        rows, mask, inner = minibatch.rows, minibatch.mask, self.correction.prepare(minibatch)
        given = self.correction.given({**rows.extras, **inner})
        weights = _parts(given.weights(rows.old_logprobs, rows.rollout_logprobs, mask))[0].detach()
        counted = weights[mask]
        if self.level == "sequence":
            there = mask.any(1)
            counted = torch.where(mask, weights, 0.0).sum(1)[there] / mask.sum(1)[there]
        mean = moments(counted, minibatch.ranks).mean
        return {**inner, MEAN: weights.new_full((len(rows),), mean or 1.0)}

    def weights(self, old_logprobs: Tensor, rollout_logprobs: Tensor, mask: Tensor) -> WithStatistics:
        """As `RolloutCorrection.weights`; `correction/divided_by` is the mean of the step."""
        weights, statistics = _parts(self.correction.given(self.extras).weights(old_logprobs, rollout_logprobs, mask))
        mean = self.extra(MEAN)
        return WithStatistics(weights / mean[:, None], {**statistics, "correction/divided_by": torch.where(mask.any(1), mean, torch.nan)})


def _parts(found: Tensor | WithStatistics) -> tuple[Tensor, Mapping[str, Tensor | Statistic]]:
    """What a correction returned: its weights, and its statistics."""
    return (found.value, found.statistics) if isinstance(found, WithStatistics) else (found, {})
