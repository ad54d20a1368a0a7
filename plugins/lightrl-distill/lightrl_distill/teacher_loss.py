"""A divergence from the teacher as a term of the loss."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge
from torch import Tensor

from lightrl import Advantage, Advantages, Aggregation, Comparison, Experience, LossTerm, PolicyOutput, TrainingBatch
from lightrl_distill.divergences import JensenShannon


class TeacherLoss(LossTerm):
    """Brings the policy near its teacher on what the policy has sampled, over the whole vocabulary.

    loss_t = D(pi_T(. | o_<t), pi(. | o_<t)); no gradient flows through the sampling.

    Source: Agarwal et al. 2024 (GKD), arXiv:2306.13649, section 3.
    """

    def __init__(
        self,
        divergence: Comparison = JensenShannon(beta=0.5),
        coefficient: Annotated[float, Ge(0)] = 1.0,
        aggregation: Aggregation | None = None,
    ) -> None:
        """
        Args:
            divergence: of the policy and its teacher.
            coefficient: weight of the term in the loss; 0 switches it off.
            aggregation: what a token weighs in this term; null: every token the same.
        """
        super().__init__(coefficient, aggregation)
        self.divergence = divergence

    @property
    def outputs(self) -> tuple[Comparison, ...]:
        return (self.divergence,) if self.coefficient else ()

    def weights(self, experience: TrainingBatch) -> Tensor:
        return experience.token_weight

    def loss(self, experience: TrainingBatch, output: PolicyOutput) -> Tensor:
        return output.needed(self.divergence.name)


class NoAdvantage(Advantage):
    """0 for every token: all that is learnt comes from the other terms of the loss.

    A_t = 0.

    Source: Agarwal et al. 2023 (GKD), arXiv:2306.13649, algorithm 1, which has no reward.
    """

    needs_rewards = False

    def compute(self, experience: Experience) -> Advantages:
        return Advantages(experience.token_rewards.new_zeros(experience.token_rewards.shape))
