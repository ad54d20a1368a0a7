"""The loss of a micro-batch as its share of one optimizer step's loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from lightrl.algorithms.algorithm import Algorithm
from lightrl.ops.kl import LIMIT, k3
from lightrl.parts.aggregation import Aggregation
from lightrl.parts.base import unpack
from lightrl.parts.critic import Critic
from lightrl.training.denominators import local_denominators
from lightrl.training.statistics import StatisticsLedger
from lightrl.types import Denominators, Experience, PolicyOutput

POLICY = "policy_loss"
"""Name of the surrogate's term; the KL penalty shares its weights and counts."""

VALUE = "value_loss"
"""Name of the critic's term."""


@dataclass(frozen=True)
class Term:
    """One term of the loss: which tokens it is about, and what they weigh."""

    aggregation: Aggregation
    """Turns token weights and counts into weights."""
    token_weight: Callable[[Experience], Tensor]
    """`[n, L]` of a batch, 0 = not part of the term."""


def terms_of(algorithm: Algorithm) -> dict[str, Term]:
    """Every term of an algorithm's loss by name."""
    terms = {POLICY: Term(algorithm.aggregation, lambda batch: batch.token_weight)}
    for name, part in algorithm.loss_terms.items():
        terms[f"{name}_loss"] = Term(part.aggregation, part.weights)
    if algorithm.critic is not None:
        terms[VALUE] = Term(algorithm.critic.aggregation, algorithm.critic.weights)
    return terms


def denominators_of(terms: dict[str, Term], batch: Experience, total: Callable[[Tensor], Tensor]) -> dict[str, Denominators]:
    """The denominators of every term over the whole optimizer step and all ranks, in one reduction."""
    shares = torch.stack([local_denominators(term.token_weight(batch), batch.group) for term in terms.values()])
    return {name: Denominators(*row) for name, row in zip(terms, total(shares).tolist(), strict=True)}


def trained_tokens(algorithm: Algorithm, terms: dict[str, Term], batch: Experience) -> Tensor:
    """`[N, L]` bool: tokens that can have a gradient in any term.

    Where nothing but a clip scheme that is silent without advantage speaks, rows whose advantages are all 0 have none:
    leaving them out changes no gradient, since the denominators are counted before.
    """
    weights = [term.token_weight(batch) > 0 for term in terms.values()]
    tokens = torch.stack(weights).any(0) & batch.response_mask
    in_loss = algorithm.kl is not None and algorithm.kl.loss_coefficient > 0
    if len(terms) == 1 and not in_loss and algorithm.clip.silent_without_advantage:
        tokens &= (batch.advantages != 0).any(1, keepdim=True)
    return tokens


def micro_batch_loss(
    algorithm: Algorithm,
    terms: dict[str, Term],
    counts: dict[str, Denominators],
    batch: Experience,
    trained: Tensor,
    output: PolicyOutput,
    ledger: StatisticsLedger,
) -> dict[str, Tensor]:
    """Each term's share of the step's loss, as scalars with gradient; their sum is what is differentiated.

    Args:
        algorithm: whose parts speak.
        terms: from `terms_of`.
        counts: of the whole optimizer step over all ranks, from `denominators_of`.
        batch: n rows of the step.
        trained: `[n, L]` bool from `trained_tokens`: where the output holds anything.
        output: what the policy says of them.
        ledger: receives the statistics.
    """
    mask = (batch.token_weight > 0) & trained
    weights = {name: term.aggregation.weights(term.token_weight(batch), batch.group, counts[name]) for name, term in terms.items()}
    # a masked position gets the ratio 1, so that nothing there can poison a gradient
    old = torch.where(mask, batch.old_logprobs, output.logprobs.detach())
    log_ratio, statistics = unpack(algorithm.ratio.log_ratio(output.logprobs, old, mask))
    ledger.add_all(statistics, mask, algorithm.ratio)
    ledger.add("ratio/overflow", (log_ratio.abs() > LIMIT).double(), mask, "sum")
    log_ratio = log_ratio.clamp(-LIMIT, LIMIT)
    surrogate = algorithm.clip.surrogate(log_ratio, batch.advantages, old, mask)
    per_token = surrogate.loss
    if algorithm.correction is not None:
        correction, _ = unpack(algorithm.correction.weights(old, batch.rollout_logprobs, mask))
        per_token = per_token * correction.detach()
    losses = {POLICY: _weighted(per_token, weights[POLICY], mask)}
    _report_surrogate(ledger, log_ratio.detach(), surrogate.clipped_low, surrogate.clipped_high, mask)
    ledger.add_all(surrogate.statistics, mask, algorithm.clip)
    ledger.add("approx_kl", k3(old, output.logprobs.detach()), mask)
    if algorithm.kl is not None and algorithm.kl.loss_coefficient > 0:
        losses["kl_loss"] = _kl_loss(algorithm, batch, output, old, mask, weights[POLICY], ledger)
    for name, part in algorithm.loss_terms.items():
        value, statistics = unpack(part.loss(batch, output))
        own = (part.weights(batch) > 0) & trained
        ledger.add_all(statistics, own, part)
        losses[f"{name}_loss"] = part.coefficient * _weighted(value, weights[f"{name}_loss"], own)
    if algorithm.critic is not None:
        assert output.values is not None
        losses[VALUE] = value_loss(algorithm.critic, batch, output.values, weights[VALUE], ledger)
    if output.entropy is not None:
        ledger.add("entropy", output.entropy, mask)
    return losses


def _weighted(values: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    return (torch.where(mask, values, torch.zeros_like(values)) * weights).sum()


def _kl_loss(
    algorithm: Algorithm, batch: Experience, output: PolicyOutput, old: Tensor, mask: Tensor, weights: Tensor, ledger: StatisticsLedger
) -> Tensor:
    kl = algorithm.kl
    assert kl is not None
    anchor = batch.ref_logprobs if kl.against == "reference" else old
    assert anchor is not None
    anchor = torch.where(mask, anchor, output.logprobs.detach())
    token_log_ratio = (output.logprobs - old).clamp(-LIMIT, LIMIT)
    penalty, statistics = unpack(kl.penalty(output.logprobs, anchor, token_log_ratio))
    new = output.logprobs.detach()
    # of the policy that sampled against the other, in the direction that the samples allow
    ledger.add("kl", k3(new, anchor) if kl.against == "reference" else k3(old, new), mask)
    ledger.add_all(statistics, mask, kl)
    return kl.loss_coefficient * _weighted(penalty, weights, mask)


def value_loss(critic: Critic, batch: Experience, values: Tensor, weights: Tensor, ledger: StatisticsLedger) -> Tensor:
    """The critic's share of the step's loss, coefficient included.

    Args:
        critic: whose loss it is.
        batch: n rows of the step.
        values: `[n, L]` of the critic as it is now.
        weights: `[n, L]` from its aggregation.
        ledger: receives the statistics.
    """
    assert batch.values is not None
    assert batch.returns is not None
    mask = weights > 0
    loss, statistics = unpack(critic.loss(values, batch.values, batch.returns))
    ledger.add_all(statistics, mask, critic)
    return critic.coefficient * _weighted(loss, weights, mask)


def _report_surrogate(ledger: StatisticsLedger, log_ratio: Tensor, low: Tensor, high: Tensor, mask: Tensor) -> None:
    ratio = log_ratio.exp()
    ledger.add_all({"ratio/mean": ratio, "clip_ratio/low": low.double(), "clip_ratio/high": high.double()}, mask)
    ledger.add("clip_ratio/region", (low | high).double(), mask)
    ledger.add("ratio/max", ratio, mask, "max")
    ledger.add("ratio/max_deviation", (ratio - 1).abs(), mask, "max")
