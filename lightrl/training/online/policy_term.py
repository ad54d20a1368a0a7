"""The policy's own term of the loss: ratio, clip scheme and correction make a surrogate of the advantages."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from lightrl.algorithms.algorithm import Algorithm
from lightrl.ops.agreement import FAR
from lightrl.ops.kl import LIMIT, k3, within_limit
from lightrl.parts.base import unpack
from lightrl.parts.clip import Surrogate
from lightrl.training.online.term import Term
from lightrl.training.statistics import Report
from lightrl.types import PolicyOutput, Statistic, Statistics, TrainingBatch


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
        # other terms may have rows forwarded that have no part in the update: figures about it are the same with and without them
        learning = mask & (batch.advantages != 0).any(1, keepdim=True)
        old = old_logprobs(batch, output, mask)
        extras = batch.extras | output.outputs
        log_ratio, statistics = unpack(self.ratio.given(extras).log_ratio(output.logprobs, old, mask))
        report.add_all(_of_rows(statistics, learning), learning, self.ratio)
        report.add("ratio/overflow", (log_ratio.abs() > LIMIT).double(), learning, "sum")
        log_ratio = within_limit(log_ratio)
        surrogate = self.clip.given(extras).surrogate(log_ratio, batch.advantages, old, mask)
        _report_ratio(report, log_ratio.detach().exp(), learning)
        self._report_clipped(report, surrogate, batch.advantages, mask)
        report.add_all(_of_rows(surrogate.statistics, learning), learning, self.clip)
        report.add("approx_kl", k3(old, output.logprobs.detach()), learning)
        _report_engine(report, output.logprobs.detach() - batch.rollout_logprobs, mask)
        for name, values in output.outputs.items():
            if values.dim() == 2:
                report.add(name, values, mask)
        if self.correction is None:
            return surrogate.loss, report
        weights, _ = unpack(self.correction.given(extras).weights(old, batch.rollout_logprobs, mask))
        return surrogate.loss * weights.detach(), report

    def left_out(self, batch: TrainingBatch) -> Report:
        """Of rows without advantage no token is clipped."""
        report, nothing = Report(), torch.zeros_like(batch.advantages)
        mask = self.tokens(batch)
        clip = self.clip.given(batch.extras | {read.name: nothing for read in self.clip.outputs})
        self._report_clipped(report, clip.surrogate(nothing, nothing, batch.old_logprobs, mask), nothing, mask)
        return report

    def _report_clipped(self, report: Report, surrogate: Surrogate, advantages: Tensor, mask: Tensor) -> None:
        low, high = surrogate.clipped_low, surrogate.clipped_high
        for name, clipped in {"clip_ratio/low": low, "clip_ratio/high": high, "clip_ratio/region": low | high}.items():
            report.add(name, (clipped & (advantages != 0)).double(), mask)
        shares = {name: (share & (advantages != 0)).double() for name, share in surrogate.shares.items()}
        report.add_all(shares, mask, self.clip)


def old_logprobs(batch: TrainingBatch, output: PolicyOutput, mask: Tensor) -> Tensor:
    """`[n, L]`: a masked position gets the ratio 1, so that nothing there can poison a gradient."""
    return torch.where(mask, batch.old_logprobs, output.logprobs.detach())


def _of_rows(statistics: Statistics, tokens: Tensor) -> Statistics:
    """The statistics, with those per row left out where a row has none of the tokens."""
    return {name: _of_rows_only(found if isinstance(found, Statistic) else Statistic(found), tokens) for name, found in statistics.items()}


def _of_rows_only(statistic: Statistic, tokens: Tensor) -> Statistic:
    if statistic.value.dim() == 2:
        return statistic
    return replace(statistic, value=torch.where(tokens.any(1), statistic.value, torch.nan))


def _report_ratio(report: Report, ratio: Tensor, learning: Tensor) -> None:
    report.add("ratio/mean", ratio, learning)
    report.add("ratio/max", ratio, learning, "max")
    report.add("ratio/max_deviation", (ratio - 1).abs(), learning, "max")


def _report_engine(report: Report, difference: Tensor, mask: Tensor) -> None:
    """How far the policy is from the engine that sampled, token by token; on a first pass it is rounding alone."""
    deviation = (difference.exp() - 1).abs()
    report.add("engine/difference", difference.abs(), mask)
    report.add("engine/far", (~(deviation <= FAR)).double(), mask)
    report.add("engine/largest", deviation, mask, "max")
