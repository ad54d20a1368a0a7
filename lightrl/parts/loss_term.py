"""Loss terms: what else is optimised, each with its own mask, counts and coefficient."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import torch
from torch import Tensor

from lightrl.parts.aggregation import Aggregation, SequenceMean, TokenMean
from lightrl.parts.base import Output, unpack
from lightrl.parts.objective import Likelihood
from lightrl.parts.output import Entropy
from lightrl.parts.step_part import StepPart
from lightrl.ranges import Weight
from lightrl.types import Experience, PolicyOutput, TrainingBatch, WithStatistics


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
    def loss(self, experience: TrainingBatch, output: PolicyOutput) -> Tensor | WithStatistics:
        """`[n, L]` to be minimised, before the coefficient."""


class RowLoss(LossTerm):
    """A loss of whole rows: one value for each, of its reward, its values and its log-probs under several policies together.

    loss = (1 / S) sum over the S rows, of the step and of all ranks, of which a token counts. It is the same however rows are cut into
    micro-batches. An algorithm that learns from it alone has `NoAdvantage` for an advantage.
    """

    needs_rewards = True

    def __init__(self, coefficient: Weight = 1.0) -> None:
        """
        Args:
            coefficient: weight of the term in the loss; 0 switches it off.
        """
        super().__init__(coefficient, SequenceMean())

    @abstractmethod
    def row_loss(self, completions: Likelihood, experience: TrainingBatch, output: PolicyOutput) -> Tensor | WithStatistics:
        """`[n]` to be minimised, before the coefficient.

        Args:
            completions: log-probs of the rows, summed over all tokens that the policy has sampled, of each turn: under the current policy,
                with gradient, the one before the first step, and the reference if the part needs it. `prepared` has the extras `[n]`.
            experience: the rows, with `rewards` `[n]`; of one that does not count the reward is 0.
            output: of the current policy, per token; its `values` are the critic's, with gradient, if the part needs them. That of the
                prompt is `experience.first_sampled(output.needed("values"))`.
        """

    def weights(self, experience: TrainingBatch) -> Tensor:
        counts = (experience.token_weight > 0).any(1, keepdim=True)
        return (experience.response_mask & counts).to(experience.token_weight.dtype)

    def loss(self, experience: TrainingBatch, output: PolicyOutput) -> WithStatistics:
        """As `LossTerm.loss`: the row's value on each of its tokens, which share one weight of the row."""
        completions = Likelihood.of(experience, output)
        # what is not known of a row that does not count would be NaN in the gradients of the others
        rewards = torch.where(self.weights(experience).any(1), experience.rewards, 0.0)
        per_row, statistics = unpack(self.row_loss(completions, replace(experience, rewards=rewards), output))
        if list(per_row.shape) != [len(experience)]:
            expected, got = f"[{len(experience)}], a number for each row", list(per_row.shape)
            raise ValueError(f"{type(self).__name__}.row_loss has to give {expected}, got {got}")
        return WithStatistics(per_row[:, None].expand(experience.response_mask.shape), statistics)


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

    needs_rewards = True

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
