"""The terms of the loss: each gives a value per token, and all of them are weighed and summed in one way."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from lightrl.parts.aggregation import Aggregation
from lightrl.training.statistics import Report
from lightrl.types import Denominators, PolicyOutput, TrainingBatch


class Term(ABC):
    """One term of the loss.

    loss = coefficient x sum over rows, tokens, micro-batches and ranks of w[i, t] value[i, t], with w of the aggregation.
    """

    name: str
    """Under which the term is logged."""
    aggregation: Aggregation
    """Turns token weights and the denominators of the whole step into the weight of each token."""
    silent_without_advantage: bool = False
    """Rows whose advantages are all 0 have no gradient."""

    @property
    @abstractmethod
    def coefficient(self) -> float:
        """Weight of the term in the loss."""

    @abstractmethod
    def token_weight(self, batch: TrainingBatch) -> Tensor:
        """`[n, L]`, 0 = the token is not part of the term."""

    @abstractmethod
    def values(self, batch: TrainingBatch, output: PolicyOutput) -> tuple[Tensor, Report]:
        """`[n, L]` to be minimised, anything outside of `tokens`; and statistics.

        Args:
            batch: n rows.
            output: of the networks, at least at `tokens`.
        """

    def left_out(self, batch: TrainingBatch) -> Report:
        """Statistics of rows of the step that no forward pass sees, since no term has a gradient there.

        Args:
            batch: these rows; maybe none.
        """
        return Report()

    def tokens(self, batch: TrainingBatch) -> Tensor:
        """`[n, L]` bool: sampled tokens that are part of the term."""
        return (self.token_weight(batch) > 0) & batch.response_mask

    def share(self, batch: TrainingBatch, output: PolicyOutput, denominators: Denominators) -> tuple[Tensor, Report]:
        """The share of a micro-batch in the term, a scalar with gradient; and statistics.

        Args:
            batch: n rows of the step.
            output: of the networks, at least at `tokens`.
            denominators: of the whole optimizer step over all ranks.
        """
        weights = self.aggregation.weights(self.token_weight(batch), batch.group, denominators)
        values, report = self.values(batch, output)
        chosen = torch.where(self.tokens(batch), values, torch.zeros_like(values))
        return self.coefficient * (chosen * weights).sum(), report
