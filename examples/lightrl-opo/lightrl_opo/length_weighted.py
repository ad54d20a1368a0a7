"""The advantage of OPO."""

import torch

from lightrl import Advantage, Advantages, Experience, broadcast_to_tokens


class LengthWeighted(Advantage):
    """Reward minus the mean of its group in which a completion weighs its length.

    A_i = R_i - sum_j l_j R_j / sum_j l_j, with l in tokens. The baseline that makes the gradient's variance smallest weighs each reward
    by the squared norm of its row's gradient, for which the length stands in. The sum of l_i A_i over a group is 0.

    Source: Hao et al. 2025, arXiv:2505.23585, section 3.2.
    """

    compares = True

    def compute(self, experience: Experience) -> Advantages:
        advantages = torch.zeros_like(experience.rewards)
        lengths = experience.response_mask.sum(1).to(experience.rewards.dtype)
        for group in experience.group.unique():
            rows = (experience.group == group) & experience.scorable
            rewards = experience.rewards[rows]
            # equal rewards teach exactly nothing, whatever the rounding
            if rewards.numel() and rewards.min() != rewards.max():
                advantages[rows] = rewards - (lengths[rows] * rewards).sum() / lengths[rows].sum()
        return Advantages(broadcast_to_tokens(advantages, experience))
