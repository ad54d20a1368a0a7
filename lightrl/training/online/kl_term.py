"""The KL penalty as a term of the loss, on the same tokens as the policy's term and with the same weights."""

from __future__ import annotations

import torch
from torch import Tensor

from lightrl.ops.kl import LIMIT, k3
from lightrl.parts.aggregation import Aggregation
from lightrl.parts.base import unpack
from lightrl.parts.kl import KL
from lightrl.training.online.policy_term import old_logprobs
from lightrl.training.online.term import Term
from lightrl.training.statistics import Report
from lightrl.types import PolicyOutput, TrainingBatch


class KLTerm(Term):
    """The penalty against the reference, or against the policy that sampled."""

    name = "kl_loss"

    def __init__(self, kl: KL, aggregation: Aggregation) -> None:
        """
        Args:
            kl: that gives the penalty and its coefficient, which a controller may move.
            aggregation: of the policy's term.
        """
        self.kl, self.aggregation = kl, aggregation

    @property
    def coefficient(self) -> float:
        return self.kl.loss_coefficient

    def token_weight(self, batch: TrainingBatch) -> Tensor:
        return batch.token_weight

    def values(self, batch: TrainingBatch, output: PolicyOutput) -> tuple[Tensor, Report]:
        mask, report, new = self.tokens(batch), Report(), output.logprobs.detach()
        old = old_logprobs(batch, output, mask)
        other = torch.where(mask, batch.needed("ref_logprobs"), new) if self.kl.against == "reference" else old
        token_log_ratio = (output.logprobs - old).clamp(-LIMIT, LIMIT)
        penalty, statistics = unpack(self.kl.penalty(output.logprobs, other, token_log_ratio))
        # of the policy that sampled against the other, in the direction that the samples allow
        report.add("kl", k3(new, other) if self.kl.against == "reference" else k3(old, new), mask)
        report.add_all(statistics, mask, self.kl)
        return penalty, report
