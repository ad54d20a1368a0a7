"""Generalised advantage estimation over the tokens that the policy emitted."""

import torch
from torch import Tensor


def generalised_advantages(rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: Tensor | float) -> Tensor:
    """Advantages from per-token rewards and values.

    delta_t = r_t + gamma V_{t+1} - V_t and A_t = delta_t + gamma lambda A_{t+1}, where t + 1 is the next masked-in token
    and V after the last one is 0.

    Source: Schulman et al. 2016, arXiv:1506.02438, eq. 16.

    Args:
        rewards: `[N, L]`, on the tokens that earned them.
        values: `[N, L]`, expected before token t is emitted.
        mask: `[N, L]` bool, tokens of the policy; gaps are skipped and carry nothing.
        gamma: discount per token, in [0, 1].
        lam: lambda in [0, 1], one number or `[N]`.

    Returns:
        `[N, L]`, 0 outside the mask.
    """
    lam = torch.as_tensor(lam, dtype=values.dtype, device=values.device)
    advantage = next_value = values.new_zeros(len(values))
    columns = []
    for t in range(values.shape[1] - 1, -1, -1):
        here = mask[:, t]
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        advantage = torch.where(here, delta + gamma * lam * advantage, advantage)
        next_value = torch.where(here, values[:, t], next_value)
        columns.append(torch.where(here, advantage, 0.0))
    return torch.stack(columns[::-1], dim=1) if columns else torch.zeros_like(values)
