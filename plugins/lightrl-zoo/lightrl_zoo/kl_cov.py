"""KL-Cov (Cui et al. 2025, arXiv:2505.22617): the tokens that would lower the entropy most are tied to the policy that sampled."""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Gt, Lt
from torch import Tensor

from lightrl import Aggregation, GroupRelative, LossTerm, Minibatch, NoClip, PolicyOutput, TokenMean, TrainingBatch
from lightrl_zoo.covariance import covariance

TIED = "kl_cov"


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
    def prepares(self) -> frozenset[str]:
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
