"""The value loss of a critic as a term of the loss, beside the policy's terms or alone."""

from __future__ import annotations

from torch import Tensor

from lightrl.parts.base import unpack
from lightrl.parts.critic import Critic
from lightrl.training.online.term import Term
from lightrl.training.statistics import Report
from lightrl.types import PolicyOutput, TrainingBatch


class ValueTerm(Term):
    """The critic's loss of its present values, those at rollout time and the returns."""

    name = "value_loss"

    def __init__(self, critic: Critic) -> None:
        """
        Args:
            critic: whose loss, weights, aggregation and coefficient these are.
        """
        self.critic, self.aggregation = critic, critic.aggregation

    @property
    def coefficient(self) -> float:
        return self.critic.coefficient

    def token_weight(self, batch: TrainingBatch) -> Tensor:
        return self.critic.weights(batch)

    def values(self, batch: TrainingBatch, output: PolicyOutput) -> tuple[Tensor, Report]:
        report = Report()
        values, statistics = unpack(self.critic.loss(output.needed("values"), batch.needed("values"), batch.needed("returns")))
        report.add_all(statistics, self.tokens(batch), self.critic)
        return values, report
