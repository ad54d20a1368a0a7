"""The KL of a whole rollout, for controllers that move KL coefficients between rollouts."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from lightrl.ops.kl import k3
from lightrl.ops.masked import masked_sum
from lightrl.parts.kl import KL
from lightrl.training.reports.statistics import StatisticsLedger
from lightrl.types import TrainingBatch


def observe_kl(
    kl: KL,
    batch: TrainingBatch,
    logprobs_now: Callable[[], Tensor] | None,
    total: Callable[[Tensor], Tensor],
    ledger: StatisticsLedger,
) -> None:
    """Tell a KL part the KL of a rollout, if it is measured, and report its coefficients.

    Args:
        kl: against the reference KL(old || reference) of the policy that sampled, against the old policy KL(old || new).
        batch: rows of this rank.
        logprobs_now: computes `[N, L]` log-probs under the present policy, at the cost of a forward pass; None: it has not moved.
        total: sums numbers over ranks.
        ledger: receives the coefficients.
    """
    if kl.against == "old":
        if not kl.observes or logprobs_now is None:
            return
        per_token = k3(batch.old_logprobs, logprobs_now())
    elif batch.ref_logprobs is not None:
        per_token = batch.old_logprobs - batch.ref_logprobs
    else:
        return
    mask = batch.response_mask
    sums = (masked_sum(per_token.double(), mask), mask.sum(), torch.tensor(len(batch)))
    nats, tokens, rows = total(torch.stack([x.double().cpu() for x in sums])).tolist()
    kl.observe(nats / max(tokens if kl.unit == "token" else rows, 1), int(rows))
    ledger.add("kl_coefficient", kl.loss_coefficient + kl.reward_coefficient)
