"""Forward passes over a whole rollout, without gradient, in micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import MappingProxyType

import torch
from torch import Tensor, nn

from lightrl.algorithms.algorithm import Algorithm
from lightrl.ops.batching import split_to
from lightrl.ops.logprobs import AtRows, Compute
from lightrl.parts.output import Comparison, Output, TrunkOutput
from lightrl.parts.reference import Reference
from lightrl.policy.policy import Policy
from lightrl.policy.trunk_numbers import FromTrunk
from lightrl.training.online.dummy_batch import dummy_batch
from lightrl.types import PolicyOutput, ScoredRollout

PerToken = Callable[[ScoredRollout, Callable[[ScoredRollout], dict[str, Tensor]]], dict[str, Tensor]]
"""Computes `[N, L]` tensors by name, without gradient and in micro-batches."""
Outputs = Mapping[str, Output]
"""Outputs of the policy by name."""
NO_OUTPUTS: Outputs = MappingProxyType({})
"""None of them."""


def policy_outputs(
    policy: Policy, critic: nn.Module | None, algorithm: Algorithm, batch: ScoredRollout, mask: Tensor, read: Outputs
) -> PolicyOutput:
    """One forward pass: log-probs of the selected tokens, and what is read of their logits, of the trunk and of the critic.

    Extras that parts have travel with the tokens do so once they are there: not yet in the pass that says what the policy was before.

    Args:
        policy: whose log-probs these are.
        critic: its network; None: there is none.
        algorithm: whose references outputs compare the policy with, and whose parts say what travels with the tokens.
        batch: n rows.
        mask: `[n, L]` bool, the selected tokens; on the CPU, or the device is waited for.
        read: outputs of the policy.
    """
    found: dict[str, Compute | AtRows | FromTrunk] = {name: output.compute for name, output in read.items()}
    found |= {name: FromTrunk(output.listen) for name, output in read.items() if isinstance(output, TrunkOutput)}
    compared = {name: output for name, output in read.items() if isinstance(output, Comparison)}
    ids = batch.host.input_ids
    with torch.no_grad():
        asked = {output.against for output in compared.values()}
        others = {slot: algorithm.references[slot].logits(policy, ids, mask, batch.temperature) for slot in sorted(asked)}
    found |= {name: beside(output, others[output.against]) for name, output in compared.items()}
    steering = {name: batch.extras[name] for name in algorithm.steers if name in batch.extras}
    output: PolicyOutput = policy(ids, mask, batch.temperature, found, critic, steering)
    return output


@contextmanager
def compared_at_hand(policy: Policy, algorithm: Algorithm, read: Outputs, further: Iterable[Reference] = ()) -> Iterator[None]:
    """Within, the references that outputs compare the policy with are asked in several forward passes, and some others.

    Args:
        policy: whose outputs are read.
        algorithm: that has the references.
        read: outputs of the policy.
        further: other references.
    """
    compared = [algorithm.references[output.against] for output in read.values() if isinstance(output, Comparison)]
    with ExitStack() as stack:
        for reference in (*compared, *further):
            stack.enter_context(reference.at_hand(policy))
        yield


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
        `[N, L]` or `[N, L, ...]`, 0 beyond a micro-batch's longest row; in the type of the rollout's log-probs, but for whole numbers.
    """
    found: dict[str, Tensor] = {}
    lengths = scored.lengths.cpu()
    for rows in split_to(cuts, largest(len(cuts))):
        micro = scored.select(rows).padded(int(lengths[rows].max())) if len(rows) else dummy_batch(scored)
        for name, values in compute(micro.to(device)).items():
            like = scored.rollout_logprobs if values.is_floating_point() else values.new_empty(0, device=scored.rollout_logprobs.device)
            whole = found.setdefault(name, like.new_zeros((*scored.rollout_logprobs.shape, *values.shape[2:])))
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
    now = run(scored, lambda micro: {"now": outputs(micro, micro.host.response_mask).logprobs})
    return now.get("now", torch.zeros_like(scored.rollout_logprobs))
