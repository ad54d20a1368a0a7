"""Rejection of tokens and rows at which engine and trainer disagree: by the mean ratio of a row, and by an estimate of their KL."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Literal

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor

from lightrl import Minibatch, RolloutCorrection, Statistic, WithStatistics


class Rejection(RolloutCorrection):
    """The base of corrections that leave out tokens or rows; what is kept has the weight 1, or that of another correction."""

    def __init__(self, importance: RolloutCorrection | None = None) -> None:
        """
        Args:
            importance: gives the weights of what is kept; null: 1 each.
        """
        self.importance = importance

    @abstractmethod
    def kept(self, log_ratio: Tensor, mask: Tensor) -> tuple[Tensor, Mapping[str, Tensor | Statistic]]:
        """`[n, L]` bool or `[n, 1]` bool: what is kept, and numbers to log.

        Args:
            log_ratio: `[n, L]` trainer's less engine's log-probs, 0 outside the mask.
            mask: `[n, L]` bool, tokens that carry a loss.
        """

    def prepare(self, minibatch: Minibatch) -> Mapping[str, Tensor]:
        return {} if self.importance is None else self.importance.prepare(minibatch)

    def weights(self, old_logprobs: Tensor, rollout_logprobs: Tensor, mask: Tensor) -> WithStatistics:
        """As `RolloutCorrection.weights`; `correction/rejected` is the share of a row's tokens that are left out."""
        kept, numbers = self.kept(torch.where(mask, (old_logprobs - rollout_logprobs).detach(), 0.0), mask)
        inner: Tensor | WithStatistics = torch.ones_like(old_logprobs)
        if self.importance is not None:
            inner = self.importance.given(self.extras).weights(old_logprobs, rollout_logprobs, mask)
        weights, statistics = (inner.value, inner.statistics) if isinstance(inner, WithStatistics) else (inner, {})
        rejected = (mask & ~kept).sum(1).double() / mask.sum(1)
        return WithStatistics(torch.where(kept, weights, 0.0), {**statistics, **numbers, "correction/rejected": rejected})


class GeometricRejection(Rejection):
    """Rows whose mean ratio of trainer to engine leaves a band carry no loss.

    w_t = v_t where low <= exp((1/L) sum_t (old_t - rollout_t)) <= high, else 0, with v = 1 or the weights of another correction, and L the
    tokens of the row that carry a loss. The band does not depend on the length of a row, as one for the product of the ratios would. It is
    the ratio of trainer to engine, as verl's, so a row that the engine liked more than the trainer is below 1.

    Source: Liu et al. 2025, "When speed kills stability"; verl's `rollout_rs: geometric`, which advises bounds of 1.0002 to 1.001.
    """

    def __init__(
        self,
        low: Annotated[float, Ge(0), Le(1)] = 0.999,
        high: Annotated[float, Ge(1)] = 1.001,
        importance: RolloutCorrection | None = None,
    ) -> None:
        """
        Args:
            low: smallest mean ratio that is kept; in [0, 1].
            high: largest mean ratio that is kept; at least 1.
            importance: gives the weights of the rows that are kept; null: 1 each.
        """
        super().__init__(importance)
        self.low, self.high = low, high

    def kept(self, log_ratio: Tensor, mask: Tensor) -> tuple[Tensor, Mapping[str, Tensor | Statistic]]:
        """See `Rejection.kept`; whole rows."""
        ratio = (log_ratio.sum(1) / mask.sum(1).clamp(min=1)).exp()
        numbers = {"correction/geometric": torch.where(mask.any(1), ratio, torch.nan)}
        return ((ratio >= self.low) & (ratio <= self.high))[:, None], numbers


class DivergenceRejection(Rejection):
    """Tokens, or rows, at which the estimated KL between engine and trainer is above a limit carry no loss.

    w_t = v_t where D <= limit, else 0, with v = 1 or the weights of another correction. With d = old - rollout of a token, k2 = d^2 / 2 and
    k3 = exp(d) - 1 - d; D is that of the token, or the sum, the mean or the largest over the tokens of the row that carry a loss. Since the
    engine sampled, the mean of k3 is an unbiased estimate of KL(engine || trainer). Neither is negative, so that tokens which differ in
    opposite directions do not cancel, as they do in a mean ratio.

    Source: Schulman 2020, "Approximating KL divergence", for the estimators; verl's `rollout_rs: token_k2`, `seq_sum_k3`, `seq_mean_k3`,
    `seq_max_k2` and their like, whose k1 is the band of `MaskedImportance` and `GeometricRejection`.
    """

    def __init__(
        self,
        limit: Annotated[float, Gt(0)] = 0.01,
        estimator: Literal["k2", "k3"] = "k3",
        over: Literal["token", "sum", "mean", "max"] = "mean",
        importance: RolloutCorrection | None = None,
    ) -> None:
        """
        Args:
            limit: largest D that is kept, in nats; > 0. verl has no default; a sum needs a larger one than a mean.
            estimator: of the divergence at a token.
            over: `token` leaves out single tokens, the others whole rows by the sum, the mean or the largest of their tokens.
            importance: gives the weights of what is kept; null: 1 each.

        Raises:
            ValueError: an argument that is none of these.
        """
        super().__init__(importance)
        self.limit, self.estimator, self.over = limit, estimator, over

    def kept(self, log_ratio: Tensor, mask: Tensor) -> tuple[Tensor, Mapping[str, Tensor | Statistic]]:
        """See `Rejection.kept`."""
        # beyond 20 nats exp would grow without bound, and any limit is long passed
        d = log_ratio.clamp(-20.0, 20.0)
        of_tokens = d.square() / 2 if self.estimator == "k2" else d.expm1() - d
        there = mask.any(1)
        rows = {"sum": of_tokens.sum(1), "max": of_tokens.max(1).values, "mean": of_tokens.sum(1) / mask.sum(1).clamp(min=1)}
        numbers: dict[str, Tensor | Statistic] = {
            "correction/divergence": torch.where(there, rows["mean"], torch.nan),
            "correction/divergence_max": Statistic(torch.where(there, rows["max"], torch.nan), "max"),
        }
        return (of_tokens if self.over == "token" else rows[self.over][:, None]) <= self.limit, numbers
