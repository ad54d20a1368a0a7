"""The loss of one optimizer step: the sum of its terms, micro-batch by micro-batch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lightrl.algorithms.algorithm import Algorithm
from lightrl.ranks import Ranks
from lightrl.training.online.networks import dummy_batch
from lightrl.training.online.terms import ExtraTerm, KLTerm, PolicyTerm, Term, ValueTerm
from lightrl.training.reports.statistics import Reported
from lightrl.training.steps.learner import MicroBatchLoss, local_denominators
from lightrl.types import Denominators, PolicyOutput, TrainingBatch


def terms_of(algorithm: Algorithm) -> list[Term]:
    """Every term of an algorithm's loss, in the order in which they are added."""
    terms: list[Term] = [PolicyTerm(algorithm)]
    if algorithm.kl is not None and algorithm.kl.loss_coefficient > 0:
        terms.append(KLTerm(algorithm.kl, algorithm.aggregation))
    terms += [ExtraTerm(slot, part) for slot, part in algorithm.loss_terms.items()]
    if algorithm.critic is not None and "values" in algorithm.advantage.needs:
        terms.append(ValueTerm(algorithm.critic))
    return terms


class StepLoss:
    """The loss of one optimizer step as a function of its micro-batches; their sum over the step and all ranks is the loss."""

    def __init__(self, terms: Sequence[Term], minibatch: TrainingBatch, ranks: Ranks) -> None:
        self.terms = terms
        shares = torch.stack([local_denominators(term.token_weight(minibatch), minibatch.group) for term in terms])
        self.denominators = [Denominators(*row) for row in ranks.total(shares).tolist()]

    @property
    def empty(self) -> bool:
        """No token of any rank is part of any term."""
        return all(denominators.tokens == 0 for denominators in self.denominators)

    def rows_of(self, minibatch: TrainingBatch) -> TrainingBatch:
        """The rows with a gradient, or a row that weighs nothing where this rank has none.

        Without any row the gradients would be None and not 0, and AdamW would treat the step as never made.
        """
        rows = trained_tokens(self.terms, minibatch).any(1).nonzero()[:, 0]
        return minibatch.select(rows) if len(rows) else dummy_batch(minibatch)

    def left_out(self, minibatch: TrainingBatch) -> list[Reported]:
        """The statistics of the rows that `rows_of` leaves out."""
        rows = minibatch.select((~trained_tokens(self.terms, minibatch).any(1)).nonzero()[:, 0])
        return [entry for term in self.terms for entry in term.left_out(rows).entries]

    def tokens(self, micro: TrainingBatch) -> Tensor:
        """`[n, L]` bool, on the CPU: the tokens of a micro-batch for which `share` wants outputs."""
        return trained_tokens(self.terms, micro.host)

    def share(self, micro: TrainingBatch, output: PolicyOutput) -> MicroBatchLoss:
        """The share of a micro-batch of n rows, by the outputs of the networks, at least at `tokens`."""
        losses: dict[str, Tensor] = {}
        statistics: list[Reported] = []
        for term, denominators in zip(self.terms, self.denominators, strict=True):
            losses[term.name], report = term.share(micro, output, denominators)
            statistics += report.entries
        loss = torch.stack(list(losses.values())).sum()
        return MicroBatchLoss(loss, {name: value.detach() for name, value in losses.items()}, statistics)


def trained_tokens(terms: Sequence[Term], batch: TrainingBatch) -> Tensor:
    """`[N, L]` bool: tokens that can have a gradient in any term.

    Where every term is silent without advantage, rows whose advantages are all 0 have none: leaving them out changes no
    gradient, since the denominators are counted before.
    """
    tokens = torch.stack([term.tokens(batch) for term in terms]).any(0)
    if all(term.silent_without_advantage for term in terms):
        tokens &= (batch.advantages != 0).any(1, keepdim=True)
    return tokens
