"""A loss term of an algorithm, such as the entropy bonus, as a term of the loss."""

from __future__ import annotations

from torch import Tensor

from lightrl.parts.base import unpack
from lightrl.parts.loss_term import LossTerm
from lightrl.training.online.term import Term
from lightrl.training.statistics import Report
from lightrl.types import PolicyOutput, TrainingBatch


class FurtherTerm(Term):
    """The loss of a `LossTerm`, with its own weights, aggregation and coefficient."""

    def __init__(self, slot: str, part: LossTerm) -> None:
        """
        Args:
            slot: of the algorithm; the term is logged as `{slot}_loss`.
            part: that fills it.
        """
        self.name, self.part, self.aggregation = f"{slot}_loss", part, part.aggregation

    @property
    def coefficient(self) -> float:
        return self.part.coefficient

    def token_weight(self, batch: TrainingBatch) -> Tensor:
        return self.part.weights(batch)

    def values(self, batch: TrainingBatch, output: PolicyOutput) -> tuple[Tensor, Report]:
        report = Report()
        values, statistics = unpack(self.part.loss(batch, output))
        report.add_all(statistics, self.tokens(batch), self.part)
        return values, report
