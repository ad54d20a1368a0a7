"""Loss terms: what else is optimised, each with its own mask, counts and coefficient."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from lightrl.parts.aggregation import Aggregation, TokenMean
from lightrl.parts.base import Output
from lightrl.parts.output import Entropy
from lightrl.parts.step_part import StepPart
from lightrl.ranges import Weight
from lightrl.types import Experience, PolicyOutput, TrainingBatch


class LossTerm(StepPart):
    """One more term of the loss, added with a coefficient."""

    holds: bool = False
    """It ties the policy to the one that sampled, so that a clip scheme without a bound may make several steps on one rollout."""

    def __init__(self, coefficient: Weight, aggregation: Aggregation | None = None) -> None:
        """
        Args:
            coefficient: weight of the term in the loss; 0 switches it off.
            aggregation: what a token weighs in this term; None: every token the same.
        """
        self.coefficient = coefficient
        self.aggregation: Aggregation = TokenMean() if aggregation is None else aggregation

    @abstractmethod
    def weights(self, experience: TrainingBatch) -> Tensor:
        """`[N, L]` weights of the tokens of this term, 0 = not part of it; they enter its own denominators."""

    @abstractmethod
    def loss(self, experience: TrainingBatch, output: PolicyOutput) -> Tensor:
        """`[n, L]` to be minimised, before the coefficient."""


class EntropyBonus(LossTerm):
    """Rewards a policy that stays undecided.

    loss_t = -H(pi(. | o_<t)), over the whole vocabulary at the rollout's temperature, in nats.

    Source: Mnih et al. 2016 (A3C), arXiv:1602.01783, section 4.
    """

    def __init__(self, coefficient: Weight = 0.001, aggregation: Aggregation | None = None) -> None:
        """
        Args:
            coefficient: weight of the term in the loss; 0 switches it off.
            aggregation: what a token weighs in this term; None: every token the same.
        """
        super().__init__(coefficient, aggregation)

    @property
    def outputs(self) -> tuple[Output, ...]:
        return (Entropy(),) if self.coefficient else ()

    def weights(self, experience: Experience) -> Tensor:
        return experience.token_weight

    def loss(self, experience: Experience, output: PolicyOutput) -> Tensor:
        return -output.needed("entropy")


class PositiveNLL(LossTerm):
    """Imitates the completions that scored well.

    loss_t = -log pi(o_t) on the rows whose reward is above a threshold.

    Source: Yue et al. 2025 (VAPO), arXiv:2504.05118, section 4.3.
    """

    def __init__(self, coefficient: Weight = 0.1, threshold: float = 0.0, aggregation: Aggregation | None = None) -> None:
        """
        Args:
            coefficient: weight of the term in the loss; 0 switches it off.
            threshold: rows with a reward above it are imitated.
            aggregation: what a token weighs in this term; None: every token the same.
        """
        super().__init__(coefficient, aggregation)
        self.threshold = threshold

    def weights(self, experience: Experience) -> Tensor:
        return torch.where((experience.rewards > self.threshold)[:, None], experience.token_weight, 0.0)

    def loss(self, experience: Experience, output: PolicyOutput) -> Tensor:
        return -output.logprobs
