"""The policy's own term of the loss: ratio, clip scheme and correction make a surrogate of the advantages."""

from __future__ import annotations

import torch
from torch import Tensor

from lightrl.algorithms.algorithm import Algorithm
from lightrl.ops.kl import LIMIT, k3
from lightrl.parts.base import unpack
from lightrl.parts.clip import Surrogate
from lightrl.training.online.term import Term
from lightrl.training.statistics import Report
from lightrl.types import PolicyOutput, TrainingBatch


class PolicyTerm(Term):
    """The surrogate of the clip scheme, times the weights of the correction."""

    name = "policy_loss"
    coefficient = 1.0

    def __init__(self, algorithm: Algorithm) -> None:
        """
        Args:
            algorithm: whose ratio, clip scheme, correction and aggregation make the term.
        """
        self.ratio, self.clip, self.correction = algorithm.ratio, algorithm.clip, algorithm.correction
        self.aggregation = algorithm.aggregation
        self.silent_without_advantage = algorithm.clip.silent_without_advantage

    def token_weight(self, batch: TrainingBatch) -> Tensor:
        return batch.token_weight

    def values(self, batch: TrainingBatch, output: PolicyOutput) -> tuple[Tensor, Report]:
        mask, report = self.tokens(batch), Report()
        old = old_logprobs(batch, output, mask)
        log_ratio, statistics = unpack(self.ratio.log_ratio(output.logprobs, old, mask))
        report.add_all(statistics, mask, self.ratio)
        report.add("ratio/overflow", (log_ratio.abs() > LIMIT).double(), mask, "sum")
        log_ratio = log_ratio.clamp(-LIMIT, LIMIT)
        surrogate = self.clip.surrogate(log_ratio, batch.advantages, old, mask)
        _report_ratio(report, log_ratio.detach(), surrogate, mask)
        report.add_all(surrogate.statistics, mask, self.clip)
        report.add("approx_kl", k3(old, output.logprobs.detach()), mask)
        if output.entropy is not None:
            report.add("entropy", output.entropy, mask)
        if self.correction is None:
            return surrogate.loss, report
        weights, _ = unpack(self.correction.weights(old, batch.rollout_logprobs, mask))
        return surrogate.loss * weights.detach(), report


def old_logprobs(batch: TrainingBatch, output: PolicyOutput, mask: Tensor) -> Tensor:
    """`[n, L]`: a masked position gets the ratio 1, so that nothing there can poison a gradient."""
    return torch.where(mask, batch.old_logprobs, output.logprobs.detach())


def _report_ratio(report: Report, log_ratio: Tensor, surrogate: Surrogate, mask: Tensor) -> None:
    ratio, low, high = log_ratio.exp(), surrogate.clipped_low, surrogate.clipped_high
    report.add_all({"ratio/mean": ratio, "clip_ratio/low": low.double(), "clip_ratio/high": high.double()}, mask)
    report.add("clip_ratio/region", (low | high).double(), mask)
    report.add("ratio/max", ratio, mask, "max")
    report.add("ratio/max_deviation", (ratio - 1).abs(), mask, "max")
