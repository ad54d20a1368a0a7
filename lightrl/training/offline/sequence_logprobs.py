"""Log-probs of whole completions, without gradient, in micro-batches."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from lightrl.ops.batching import split_to
from lightrl.rows import Sequences

TokenLogProbs = Callable[[Tensor, Tensor], Tensor]
"""Gives the `[n, l]` log-probs of the tokens of `[n, l]` ids that an `[n, l]` mask chooses."""


def summed(logprobs: Tensor, mask: Tensor) -> Tensor:
    """`[n]` sums over the chosen tokens of `[n, L]` log-probs, in float32 or better."""
    exact = logprobs.to(torch.promote_types(logprobs.dtype, torch.float32))
    return torch.where(mask, exact, torch.zeros_like(exact)).sum(1)


@torch.no_grad()
def sequence_logprobs(
    input_ids: Tensor,
    mask: Tensor,
    cut: Callable[[Sequences], list[Tensor]],
    token_logprobs: TokenLogProbs,
    largest: Callable[[int], int],
) -> Tensor:
    """`[N]` float64: the log-prob of each row's chosen tokens.

    Args:
        input_ids: `[N, L]`, on the CPU; a row ends with the last chosen token. N may be 0.
        mask: `[N, L]` bool, on the CPU.
        cut: gives the rows of each forward pass.
        token_logprobs: the policy or its reference.
        largest: the maximum over ranks: all run as many passes, since a strategy that shards weights gathers them in each.
    """
    found = torch.zeros(len(input_ids), dtype=torch.float64)
    lengths = ends(mask)
    cuts = cut(Sequences(input_ids, lengths, torch.arange(len(lengths))))
    for rows in split_to(cuts, largest(len(cuts))):
        if not len(rows):
            # a rank without rows takes part with one of its own making
            token_logprobs(torch.zeros(1, 2, dtype=torch.long), torch.tensor([[False, True]]))
            continue
        width = int(lengths[rows].max())
        chosen = mask[rows, :width]
        found[rows] = summed(token_logprobs(input_ids[rows, :width], chosen).cpu(), chosen).double()
    return found


def ends(mask: Tensor) -> Tensor:
    """`[N]` int64: one more than the position of the last chosen token of each row."""
    if not mask.shape[1]:
        return torch.zeros(len(mask), dtype=torch.long)
    return torch.where(mask, torch.arange(1, mask.shape[1] + 1), 0).amax(1)
