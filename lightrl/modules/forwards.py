"""Forward passes over a whole rollout, without gradient, in micro-batches."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from lightrl.ops.batching import micro_batches
from lightrl.types import ScoredRollout


@torch.no_grad()
def per_token(
    scored: ScoredRollout, budget: int | None, device: torch.device, look: Callable[[ScoredRollout], dict[str, Tensor]]
) -> dict[str, Tensor]:
    """What a forward pass says of every token, by name.

    Args:
        scored: N rows.
        budget: padded tokens per forward pass; None: all at once.
        device: where the passes run; the results are where the rollout is.
        look: gives `[n, l]` values by name for a micro-batch of n rows, the same names each time.

    Returns:
        `[N, L]` in the type of the rollout's log-probs, 0 beyond a micro-batch's longest row.
    """
    found: dict[str, Tensor] = {}
    for rows in micro_batches(scored.lengths.cpu(), budget):
        micro = scored.select(rows).padded(int(scored.lengths[rows].max())).to(device)
        for name, values in look(micro).items():
            whole = found.setdefault(name, torch.zeros_like(scored.rollout_logprobs))
            whole[rows, : values.shape[1]] = values.to(whole)
    return found
