"""Clip-Cov and KL-Cov (Cui et al. 2025, arXiv:2505.22617): the tokens that would lower the entropy most are dropped, or tied."""

from typing import Annotated

import torch
from annotated_types import Ge, Gt, Le, Lt
from torch import Tensor

from lightrl import (
    Aggregation,
    DecoupledClip,
    GroupRelative,
    LossTerm,
    Minibatch,
    NoClip,
    PolicyOutput,
    Surrogate,
    TokenMean,
    TrainingBatch,
)

DROPPED = "clip_cov"
TIED = "kl_cov"


def covariance(minibatch: Minibatch) -> Tensor:
    """`[N, L]`: Cov_t = (A_t - mean A) (log pi(o_t) - mean log pi), the means over the tokens of the whole step that carry a loss.

    Source: Cui et al. 2025, arXiv:2505.22617, eq. 10.
    """
    advantages, logprobs = minibatch.rows.advantages, minibatch.output.logprobs
    return (advantages - minibatch.moments(advantages).mean) * (logprobs - minibatch.moments(logprobs).mean)


class CovarianceClip(DecoupledClip):
    """PPO's clip, without a few tokens of high covariance.

    J_t = 0 for max(1, floor(share N)) tokens of the step, drawn at random from those with lower < Cov_t < upper that the ratio does not
    clip, where N counts tokens with a loss; min(r_t A_t, clip(r_t, 1 - low, 1 + high) A_t) for the others.

    Source: Cui et al. 2025 (Clip-Cov), arXiv:2505.22617, eqs. 11 and 12, with the numbers of section 4.3; bounds of the ratio, and that
    one token is drawn at least, as in the authors' code.
    """

    token_ratio_only = True
    gives = frozenset({DROPPED})

    def __init__(
        self,
        low: Annotated[float, Ge(0), Le(1)] = 1.0,
        high: Annotated[float, Gt(0)] = 1.0,
        share: Annotated[float, Gt(0), Lt(1)] = 2e-4,
        lower: float = 1.0,
        upper: float = 5.0,
    ) -> None:
        """
        Args:
            low: how far the ratio may fall below 1 while the advantage is negative; in [0, 1], and with 1 as far as it may.
            high: how far it may rise above 1 while the advantage is positive; > 0.
            share: of the tokens of a step that are dropped; in (0, 1).
            lower: only tokens with a covariance above it are dropped.
            upper: only tokens with a covariance below it are dropped; above `lower`.

        Raises:
            ValueError: a number outside its range.
        """
        super().__init__(low, high)
        if not lower < upper:
            raise ValueError(f"CovarianceClip needs lower < upper, got lower={lower}, upper={upper}")
        self.share, self.lower, self.upper = share, lower, upper

    def prepare(self, minibatch: Minibatch) -> dict[str, Tensor]:
        rows, of_tokens = minibatch.rows, covariance(minibatch)
        log_ratio = minibatch.output.logprobs - rows.old_logprobs
        plain = super().surrogate(log_ratio, rows.advantages, rows.old_logprobs, minibatch.mask)
        candidates = minibatch.mask & (of_tokens > self.lower) & (of_tokens < self.upper) & ~plain.clipped_low & ~plain.clipped_high
        count = max(int(self.share * minibatch.total(minibatch.mask)), 1)
        return {DROPPED: minibatch.largest(torch.zeros_like(of_tokens), candidates, count, DROPPED)}

    def surrogate(self, log_ratio: Tensor, advantages: Tensor, old_logprobs: Tensor, mask: Tensor) -> Surrogate:
        plain, dropped = super().surrogate(log_ratio, advantages, old_logprobs, mask), self.extra(DROPPED)
        low, high = dropped & (advantages < 0), dropped & (advantages > 0)
        loss = torch.where(dropped, 0.0, plain.loss)
        return Surrogate(loss, plain.clipped_low & ~dropped | low, plain.clipped_high & ~dropped | high, {"clip_cov/dropped": dropped})


class ClipCov(GroupRelative):
    """GRPO without the tokens whose update would lower the entropy most.

    GRPO with `CovarianceClip`, every token weighing the same, and no KL.

    Source: Cui et al. 2025, arXiv:2505.22617.
    """

    best_for = "long runs whose entropy collapses, with several steps per rollout"

    clip = CovarianceClip()
    aggregation = TokenMean()


class CovarianceKL(LossTerm):
    """A penalty on the tokens of highest covariance, for moving in either direction.

    loss_t = |log pi(o_t) - log pi_old(o_t)| for the max(1, floor(share N)) tokens of the step with the largest Cov_t, N counting tokens
    with a loss; 0 for the others, which count in the denominators all the same.

    Source: Cui et al. 2025 (KL-Cov), arXiv:2505.22617, eqs. 13 and 14. The paper writes KL(pi_old || pi) there; the absolute log-ratio,
    and one token at least, are those of the authors' code and of verl.
    """

    holds = True

    def __init__(
        self, coefficient: float = 1.0, share: Annotated[float, Gt(0), Lt(1)] = 2e-3, aggregation: Aggregation | None = None
    ) -> None:
        """
        Args:
            coefficient: weight of the term in the loss; 0 switches it off.
            share: of the tokens of a step that are tied; in (0, 1). The paper has 2e-3 for 7B parameters and 2e-4 for 32B.
            aggregation: what a token weighs in this term, that of the algorithm in the paper; None: every token the same.
        """
        super().__init__(coefficient, aggregation)
        self.share = share

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({TIED} if self.coefficient else ())

    def prepare(self, minibatch: Minibatch) -> dict[str, Tensor]:
        count = max(int(self.share * minibatch.total(minibatch.mask)), 1)
        return {TIED: minibatch.largest(covariance(minibatch), minibatch.mask, count, TIED)}

    def weights(self, experience: TrainingBatch) -> Tensor:
        return experience.token_weight

    def loss(self, experience: TrainingBatch, output: PolicyOutput) -> Tensor:
        return torch.where(experience.extra(TIED), (output.logprobs - experience.old_logprobs).abs(), 0.0)


class KLCov(GroupRelative):
    """GRPO whose clip is replaced by a penalty on the tokens that would lower the entropy most.

    The importance-weighted policy gradient with `CovarianceKL`, every token weighing the same, and no KL to a reference.

    Source: Cui et al. 2025, arXiv:2505.22617.
    """

    best_for = "long runs whose entropy collapses, where no token may lose its gradient"

    clip = NoClip()
    aggregation = TokenMean()
    kl_cov: LossTerm | None = CovarianceKL()
    """Ties the tokens of highest covariance to the policy that sampled; null: none."""
