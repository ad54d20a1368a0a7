"""Dual-clip PPO (Ye et al. 2020)."""

import torch
from torch import Tensor

from lightrl import DecoupledClip, Surrogate


class DualClip(DecoupledClip):
    """PPO's clip with a floor for what a bad token can cost.

    J_t = min(r_t A_t, clip(r_t, 1 - low, 1 + high) A_t) where A_t >= 0, and max of that and cap A_t where A_t < 0: above
    r_t = cap a bad token has no gradient, where plain PPO's grows without bound.

    Source: Ye et al. 2020, arXiv:1912.09729, eq. 5 (cap 3).
    """

    def __init__(self, low: float = 0.2, high: float = 0.2, cap: float = 3.0) -> None:
        """
        Args:
            low: how far the ratio may fall below 1 while the advantage is negative; in [0, 1).
            high: how far it may rise above 1 while the advantage is positive; > 0.
            cap: the ratio above which a negative advantage has no gradient; above 1.

        Raises:
            ValueError: a bound outside its range.
        """
        super().__init__(low=low, high=high)
        if cap <= 1:
            raise ValueError(f"DualClip needs cap > 1, got {cap}")
        self.cap = cap

    def surrogate(self, log_ratio: Tensor, advantages: Tensor, old_logprobs: Tensor, mask: Tensor) -> Surrogate:
        plain = super().surrogate(log_ratio, advantages, old_logprobs, mask)
        floored = (log_ratio.exp() > self.cap) & (advantages < 0)
        return Surrogate(
            loss=torch.where(floored, -self.cap * advantages, plain.loss),
            clipped_low=plain.clipped_low,
            clipped_high=plain.clipped_high | floored,
            shares={"clip_ratio/dual": floored},
        )
