"""Process supervision: rewards at the ends of reasoning steps."""

from typing import Annotated

import torch
from annotated_types import Ge, Le

from lightrl import Advantage, Advantages, Experience, group_statistics


class StepNormalized(Advantage):
    """Step rewards normalised over all steps of the group, and added up from each token on.

    r~ = (r - mean_g(r)) / (std_g(r) + eps) over every step reward of every completion of the group, and
    A_t = sum of r~ over the steps that end at t or later. With one reward at the end of each row it is `GroupNormalized`.

    Source: Shao et al. 2024 (GRPO), arXiv:2402.03300, section 4.1.3.
    """

    compares = True

    def __init__(self, ddof: Annotated[int, Ge(0), Le(1)] = 1, eps: Annotated[float, Ge(0)] = 1e-6) -> None:
        """
        Args:
            ddof: 1 divides the squares by count - 1, 0 by the count.
            eps: added to the deviation; at least 0.
        """
        self.ddof, self.eps = ddof, eps

    def compute(self, experience: Experience) -> Advantages:
        mask = experience.response_mask & experience.scorable[:, None]
        ends = experience.step_ends & mask
        # a row without response tokens is one step, which no token ends
        whole = experience.scorable & ~mask.any(1)
        rewards = torch.cat([experience.token_rewards[ends], experience.rewards[whole]])
        group = torch.cat([experience.group[:, None].expand_as(ends)[ends], experience.group[whole]])
        steps = group_statistics(rewards, group, torch.ones_like(group, dtype=torch.bool), self.ddof)
        scale = steps.std + self.eps
        normalised = torch.where(steps.zero_variance | (scale == 0), 0.0, (rewards.double() - steps.mean) / scale)
        placed = torch.zeros(ends.shape, dtype=torch.float64, device=ends.device).masked_scatter(ends, normalised)
        following = placed.flip(1).cumsum(1).flip(1)
        return Advantages(torch.where(mask, following, 0.0).to(experience.token_rewards.dtype))
