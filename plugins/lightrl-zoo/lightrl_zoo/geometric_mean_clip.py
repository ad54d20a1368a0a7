"""GMPO's surrogate: token ratios are clipped, then averaged geometrically over the row."""

from torch import Tensor

from lightrl import ClipScheme, Surrogate


class GeometricMeanClip(ClipScheme):
    """The geometric mean of a row's clipped token ratios.

    J_i = A_i exp((1/L) sum_t c_t), c_t = min(l_t, epsilon) where A_i > 0 and max(l_t, -epsilon) where A_i < 0, with l_t the
    log-ratio and L the tokens of the row that carry a loss. Every token of the row holds J_i, with A_t in place of A_i where
    advantages differ within a row.

    Source: Zhao et al. 2025 (GMPO), arXiv:2507.20673.
    """

    row_constant = True
    token_ratio_only = True
    silent_without_advantage = True

    def __init__(self, epsilon: float = 0.4) -> None:
        """
        Args:
            epsilon: how far a token's log-ratio may go in the direction of its advantage, in nats; > 0.

        Raises:
            ValueError: epsilon is not positive.
        """
        if epsilon <= 0:
            raise ValueError(f"GeometricMeanClip needs epsilon > 0, got {epsilon}")
        self.epsilon = epsilon

    def surrogate(self, log_ratio: Tensor, advantages: Tensor, old_logprobs: Tensor, mask: Tensor) -> Surrogate:
        high = mask & (advantages > 0) & (log_ratio > self.epsilon)
        low = mask & (advantages < 0) & (log_ratio < -self.epsilon)
        clipped = log_ratio.masked_fill(high, self.epsilon).masked_fill(low, -self.epsilon).masked_fill(~mask, 0.0)
        ratio = (clipped.sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)).exp()
        return Surrogate(loss=-ratio * advantages.masked_fill(~mask, 0.0), clipped_low=low, clipped_high=high)
