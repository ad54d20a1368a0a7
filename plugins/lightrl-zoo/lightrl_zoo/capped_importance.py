"""CISPO's surrogate: the importance weight is capped, the token keeps its gradient."""

import torch
from torch import Tensor

from lightrl import ClipScheme, Surrogate


class CappedImportance(ClipScheme):
    """Policy gradient under a capped importance weight.

    J_t = sg[clip(r_t, 1 - low, 1 + high)] A_t log pi(o_t), with log pi = log_ratio + old_logprobs. No token loses its gradient
    by the cap, unlike under PPO's clip; with `mask_low` or `mask_high` those that PPO would clip lose theirs.

    Source: MiniMax 2025 (CISPO), arXiv:2506.13585, eq. 4-5; the mask eq. 6-7.
    """

    token_ratio_only = True
    silent_without_advantage = True

    def __init__(self, high: float = 0.2, low: float | None = None, mask_high: float | None = None, mask_low: float | None = None) -> None:
        """
        Args:
            high: the weight is at most 1 + high; > 0. The paper tunes it and does not state it; 0.2 is that of verl's example.
            low: the weight is at least 1 - low; in [0, 1]. null, as in the paper: no lower bound.
            mask_high: tokens with a ratio above 1 + mask_high and a positive advantage have no gradient; > 0. null: they keep it.
            mask_low: tokens with a ratio below 1 - mask_low and a negative advantage have no gradient; in [0, 1). null: they keep it.

        Raises:
            ValueError: a bound outside its range.
        """
        if high <= 0 or not (low is None or 0 <= low <= 1):
            raise ValueError(f"CappedImportance needs high > 0 and 0 <= low <= 1 or null, got high={high}, low={low}")
        if not (mask_high is None or mask_high > 0) or not (mask_low is None or 0 <= mask_low < 1):
            raise ValueError(f"CappedImportance needs mask_high > 0 and 0 <= mask_low < 1, got mask_high={mask_high}, mask_low={mask_low}")
        self.high, self.low, self.mask_high, self.mask_low = high, low, mask_high, mask_low

    def surrogate(self, log_ratio: Tensor, advantages: Tensor, old_logprobs: Tensor, mask: Tensor) -> Surrogate:
        ratio = log_ratio.detach().exp()
        weight = ratio.clamp(0.0 if self.low is None else 1 - self.low, 1 + self.high)
        nowhere = torch.zeros_like(ratio, dtype=torch.bool)
        dropped_low = nowhere if self.mask_low is None else (ratio < 1 - self.mask_low) & (advantages < 0)
        dropped_high = nowhere if self.mask_high is None else (ratio > 1 + self.mask_high) & (advantages > 0)
        loss = -weight * advantages * (log_ratio + old_logprobs)
        return Surrogate(
            loss=torch.where(dropped_low | dropped_high, 0.0, loss),
            clipped_low=dropped_low,
            clipped_high=dropped_high,
            shares={"cispo/capped": weight != ratio},
            statistics={"cispo/weight": weight},
        )
