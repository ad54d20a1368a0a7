"""A clip that is wide where the old policy gave a token little probability."""

from typing import Annotated

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor

from lightrl import ClipScheme, Surrogate


class DynamicAdaptiveClip(ClipScheme):
    """Dynamic adaptive clipping (DAC): bounds that follow from the old probability q of the sampled token.

    |(r - 1) r q| <= epsilon gives 1/2 + 1/2 sqrt(max(1 - 4 low / q, 0)) <= r <= min(1/2 + 1/2 sqrt(1 + 4 high / q), cap), and
    J_t = min(r_t A_t, clip(r_t) A_t), for A_t < 0 not below cap A_t (no gradient beyond the cap, whatever the sign).

    Source: Yang et al. 2025 (DCPO), arXiv:2509.02333, section 3.1, eq. 4 and 27; the defaults meet 0.8 and 1.2 as in eq. 28.
    """

    silent_without_advantage = True

    def __init__(
        self, low: Annotated[float, Ge(0), Lt(0.25)] = 0.16, high: Annotated[float, Gt(0)] = 0.2, cap: Annotated[float, Gt(1)] = 10.0
    ) -> None:
        """
        Args:
            low: epsilon of the lower bound; in [0, 0.25).
            high: epsilon of the upper bound; > 0.
            cap: the largest ratio with a gradient; > 1.
        """
        self.low, self.high, self.cap = low, high, cap

    def bounds(self, old_logprobs: Tensor) -> tuple[Tensor, Tensor]:
        """Smallest and largest ratio of each token, given its log-probability under the old policy."""
        rarity = (-old_logprobs).exp()
        lowest = 0.5 + 0.5 * (1 - 4 * self.low * rarity).clamp(min=0).sqrt()
        highest = (0.5 + 0.5 * (1 + 4 * self.high * rarity).sqrt()).clamp(max=self.cap)
        return lowest, highest

    def surrogate(self, log_ratio: Tensor, advantages: Tensor, old_logprobs: Tensor, mask: Tensor) -> Surrogate:
        lowest, highest = self.bounds(torch.where(mask, old_logprobs, 0.0))
        ratio = log_ratio.exp()
        # clamp passes the whole gradient on the bound itself, where maximum and minimum pass half of it
        objective = torch.minimum(ratio * advantages, ratio.clamp(lowest, highest) * advantages)
        objective = torch.where(advantages < 0, objective.clamp(min=self.cap * advantages), objective)
        capped = (ratio > self.cap) & (advantages < 0)
        low = (ratio < lowest) & (advantages < 0)
        high = ((ratio > highest) & (advantages > 0)) | capped
        return Surrogate(
            loss=-objective, clipped_low=low, clipped_high=high, shares={"token_clipping_ratio": low | high, "clip_ratio/capped": capped}
        )
