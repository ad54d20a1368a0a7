"""Several texts in one row, none of which sees another."""

from __future__ import annotations

import torch
from torch import Tensor

from lightrl.policy.policy import Policy

LEAK = 1e-6
"""Largest change of a log-prob by what stands in front of its text; masked attention weights are exactly 0."""


def packed_logprobs(policy: Policy, input_ids: Tensor, mask: Tensor, lengths: Tensor) -> Tensor:
    """`[n, L]` log-probs of the selected tokens, 0 elsewhere, computed in a single row without padding.

    Position ids begin at 0 with every text; from them transformers makes the block-diagonal causal mask (or the sequence lengths of
    a variable-length kernel) that keeps the texts apart.

    Args:
        policy: that `refuse_leaking` does not refuse.
        input_ids: `[n, L]`, padded on the right.
        mask: `[n, L]` bool, tokens whose log-prob is wanted; not the first of a row.
        lengths: `[n]` int64, tokens of each row.
    """
    positions = torch.arange(input_ids.shape[1], device=input_ids.device).expand_as(input_ids)
    filled = positions < lengths[:, None]
    selected = mask[filled][None]
    logprobs = policy(input_ids[filled][None], selected, position_ids=positions[filled][None]).logprobs
    return torch.zeros(mask.shape, dtype=logprobs.dtype, device=logprobs.device).masked_scatter(mask, logprobs[selected])


@torch.no_grad()
def refuse_leaking(policy: Policy) -> None:
    """Refuse a model in which a text's log-probs change with the text in front of it in the row.

    Raises:
        ValueError: they do, or the model takes no position ids; the message names the model.
    """
    size = policy.model.config.get_text_config().vocab_size
    ids = torch.randint(size, (2, 6), generator=torch.Generator().manual_seed(0), device="cpu")
    others = torch.stack([(ids[0] + 1) % size, ids[1]])
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[:, 0] = False
    device, lengths, name = next(policy.parameters()).device, torch.tensor([6, 6]), type(policy.model).__name__
    try:
        one, other = (packed_logprobs(policy, rows.to(device), mask.to(device), lengths.to(device))[1] for rows in (ids, others))
    except TypeError as error:
        raise ValueError(f"model.packing: {name} takes no position_ids, so texts in a row cannot be kept apart: set it to false") from error
    if (one - other).abs().max() > LEAK:
        raise ValueError(
            f"model.packing: {name} ({policy.model.config._attn_implementation} attention) lets a text see the one in front of it in the "
            "row: set it to false"
        )
