"""The terms of the loss: the policy's own, the KL penalty, the critic's, and the extra ones that parts bring."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import torch
from torch import Tensor

from lightrl.algorithms.algorithm import Algorithm
from lightrl.ops.agreement import FAR
from lightrl.parts.aggregation import Aggregation
from lightrl.parts.base import unpack
from lightrl.parts.clip import Surrogate
from lightrl.parts.critic import Critic
from lightrl.parts.kl import KL, LIMIT, k3, within_limit
from lightrl.parts.loss_term import LossTerm
from lightrl.training.reports.statistics import Report
from lightrl.types import Denominators, PolicyOutput, Statistic, Statistics, TrainingBatch


class Term(ABC):
    """One term of the loss.

    loss = coefficient x sum over rows, tokens, micro-batches and ranks of w[i, t] value[i, t], with w of the aggregation.
    """

    name: str
    """Under which the term is logged."""
    coefficient: float
    """Weight of the term in the loss of one step."""
    aggregation: Aggregation
    """Turns token weights and the denominators of the whole step into the weight of each token."""
    silent_without_advantage: bool = False
    """Rows whose advantages are all 0 have no gradient."""

    def token_weight(self, batch: TrainingBatch) -> Tensor:
        """`[n, L]`, 0 = the token is not part of the term."""
        return batch.token_weight

    @abstractmethod
    def values(self, batch: TrainingBatch, output: PolicyOutput) -> tuple[Tensor, Report]:
        """`[n, L]` to be minimised, anything outside of `tokens`, at which the networks gave outputs; and statistics."""

    def left_out(self, batch: TrainingBatch) -> Report:
        """Statistics of rows of the step that no forward pass sees, since no term has a gradient there."""
        return Report()

    def tokens(self, batch: TrainingBatch) -> Tensor:
        """`[n, L]` bool: sampled tokens that are part of the term."""
        return (self.token_weight(batch) > 0) & batch.response_mask

    def share(self, batch: TrainingBatch, output: PolicyOutput, denominators: Denominators) -> tuple[Tensor, Report]:
        """The share of a micro-batch in the term, a scalar with gradient; and statistics."""
        weights = self.aggregation.weights(self.token_weight(batch), batch.group, denominators)
        values, report = self.values(batch, output)
        chosen = torch.where(self.tokens(batch), values, torch.zeros_like(values))
        return self.coefficient * (chosen * weights).sum(), report


class PolicyTerm(Term):
    """The surrogate of the clip scheme, times the weights of the correction."""

    name = "policy_loss"
    coefficient = 1.0

    def __init__(self, algorithm: Algorithm) -> None:
        self.ratio, self.clip, self.correction = algorithm.ratio, algorithm.clip, algorithm.correction
        self.aggregation = algorithm.aggregation
        self.silent_without_advantage = algorithm.clip.silent_without_advantage

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
        ratio = log_ratio.detach().exp()
        report.add("ratio/mean", ratio, learning)
        report.add("ratio/max", ratio, learning, "max")
        report.add("ratio/max_deviation", (ratio - 1).abs(), learning, "max")
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
    every = {name: found if isinstance(found, Statistic) else Statistic(found) for name, found in statistics.items()}
    per_row = {name: found for name, found in every.items() if found.value.dim() != 2}
    return every | {name: replace(f, value=torch.where(tokens.any(1), f.value, torch.nan)) for name, f in per_row.items()}


def _report_engine(report: Report, difference: Tensor, mask: Tensor) -> None:
    """How far the policy is from the engine that sampled, token by token; on a first pass it is rounding alone."""
    deviation = (difference.exp() - 1).abs()
    report.add("engine/difference", difference.abs(), mask)
    report.add("engine/far", (~(deviation <= FAR)).double(), mask)
    report.add("engine/largest", deviation, mask, "max")


class ExtraTerm(Term):
    """The loss of a `LossTerm`, with its own weights, aggregation and coefficient."""

    def __init__(self, slot: str, part: LossTerm) -> None:
        self.name, self.part, self.aggregation, self.coefficient = f"{slot}_loss", part, part.aggregation, part.coefficient

    def token_weight(self, batch: TrainingBatch) -> Tensor:
        return self.part.weights(batch)

    def values(self, batch: TrainingBatch, output: PolicyOutput) -> tuple[Tensor, Report]:
        report = Report()
        values, statistics = unpack(self.part.loss(batch, output))
        tokens = self.tokens(batch)
        report.add_all(_of_rows(statistics, tokens), tokens, self.part)
        return values, report


class ValueTerm(Term):
    """The critic's loss of its present values, those at rollout time and the returns."""

    name = "value_loss"

    def __init__(self, critic: Critic) -> None:
        self.critic, self.aggregation, self.coefficient = critic, critic.aggregation, critic.coefficient

    def token_weight(self, batch: TrainingBatch) -> Tensor:
        return self.critic.weights(batch)

    def values(self, batch: TrainingBatch, output: PolicyOutput) -> tuple[Tensor, Report]:
        report = Report()
        values, statistics = unpack(self.critic.loss(output.needed("values"), batch.needed("values"), batch.needed("returns")))
        report.add_all(statistics, self.tokens(batch), self.critic)
        return values, report


class KLTerm(Term):
    """The penalty against the reference, or against the policy that sampled."""

    name = "kl_loss"

    def __init__(self, kl: KL, aggregation: Aggregation) -> None:
        self.kl, self.aggregation, self.coefficient = kl, aggregation, kl.loss_coefficient

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
