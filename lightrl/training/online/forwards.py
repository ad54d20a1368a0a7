"""Forward passes over a whole rollout, without gradient, in micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn

from lightrl.ops.batching import split_to
from lightrl.ops.logprobs import AtRows, Compute
from lightrl.parts.output import Comparison, Output
from lightrl.parts.reference import Reference
from lightrl.policy.policy import Policy
from lightrl.training.online.dummy_batch import dummy_batch
from lightrl.types import PolicyOutput, ScoredRollout

PerToken = Callable[[ScoredRollout, Callable[[ScoredRollout], dict[str, Tensor]]], dict[str, Tensor]]
"""Computes `[N, L]` tensors by name, without gradient and in micro-batches."""
Outputs = Mapping[str, Output]
"""Outputs of the policy by name."""
NO_OUTPUTS: Outputs = MappingProxyType({})
"""None of them."""


def policy_outputs(
    policy: Policy, critic: nn.Module | None, references: Mapping[str, Reference], batch: ScoredRollout, mask: Tensor, read: Outputs
) -> PolicyOutput:
    """One forward pass: log-probs of the selected tokens, and what is read of their logits and of the critic.

    Args:
        policy: whose log-probs these are.
        critic: its network; None: there is none.
        references: that outputs compare the policy with, by their slots.
        batch: n rows.
        mask: `[n, L]` bool, the selected tokens.
        read: outputs of the policy.
    """
    of_logits: dict[str, Compute | AtRows] = {name: output.compute for name, output in read.items()}
    compared = {name: output for name, output in read.items() if isinstance(output, Comparison)}
    with torch.no_grad():
        asked = {output.against for output in compared.values()}
        others = {slot: references[slot].logits(policy, batch.input_ids, mask, batch.temperature) for slot in sorted(asked)}
    of_logits |= {name: beside(output, others[output.against]) for name, output in compared.items()}
    found: PolicyOutput = policy(batch.input_ids, mask, batch.temperature, of_logits, critic)
    return found


def beside(output: Comparison, other: Callable[[slice], Tensor]) -> AtRows:
    """What compares the policy with another one, chunk by chunk.

    Args:
        output: the comparison.
        other: gives the logits of the other one for a slice of the positions.
    """
    return AtRows(lambda rows: lambda logits, ids: output.checked(logits, other(rows), ids))


@torch.no_grad()
def per_token(
    scored: ScoredRollout,
    cuts: list[Tensor],
    device: torch.device,
    compute: Callable[[ScoredRollout], dict[str, Tensor]],
    largest: Callable[[int], int],
) -> dict[str, Tensor]:
    """The outputs of forward passes for every token, by name.

    Args:
        scored: N rows.
        cuts: the rows of each forward pass.
        device: where the passes run; the results are where the rollout is.
        compute: gives `[n, l]` values by name for a micro-batch of n rows, the same names each time.
        largest: the maximum over ranks: all run as many passes, since a strategy that shards weights gathers them in each.

    Returns:
        `[N, L]` in the type of the rollout's log-probs, 0 beyond a micro-batch's longest row.
    """
    found: dict[str, Tensor] = {}
    lengths = scored.lengths.cpu()
    for rows in split_to(cuts, largest(len(cuts))):
        micro = scored.select(rows).padded(int(lengths[rows].max())) if len(rows) else dummy_batch(scored)
        for name, values in compute(micro.to(device)).items():
            whole = found.setdefault(name, torch.zeros_like(scored.rollout_logprobs))
            if len(rows):
                whole[rows, : values.shape[1]] = values.to(whole)
    return found


def logprobs_now(
    scored: ScoredRollout,
    outputs: Callable[[ScoredRollout, Tensor], PolicyOutput],
    run: PerToken,
) -> Tensor:
    """`[N, L]` log-probs of every sampled token under the present policy.

    Args:
        scored: N rows.
        outputs: log-probs of the selected tokens of a micro-batch.
        run: runs the forward passes.
    """
    now = run(scored, lambda micro: {"now": outputs(micro, micro.response_mask).logprobs})
    return now.get("now", torch.zeros_like(scored.rollout_logprobs))
