"""MaxRL (Tajwar et al. 2026, arXiv:2602.02710): rewards in units of the group's mean, so that rare successes count for more."""

from __future__ import annotations

import torch

from lightrl import Advantage, Advantages, Experience, GroupRelative, TokenMean, broadcast_to_tokens, group_statistics


class MeanScaled(Advantage):
    """Reward minus the mean of its group, divided by that mean.

    A_i = (R_i - mean_g(R)) / (mean_g(R) + eps), on every token of the row; 0 where the rewards of a group are equal or their mean is
    not above 0. For rewards of at least 0, such as 1 for a right answer: the mean is then the share of right ones, and the expected
    gradient that of the log-likelihood of a right answer, its Maclaurin series cut after G - 1 terms.

    Source: Tajwar et al. 2026 (MaxRL), arXiv:2602.02710, algorithm 1 and theorem 5; eps as in the authors' code.
    """

    baseline = "group"

    def __init__(self, eps: float = 1e-6) -> None:
        """
        Args:
            eps: added to the mean; at least 0.

        Raises:
            ValueError: eps is negative.
        """
        if not 0 <= eps < float("inf"):
            raise ValueError(f"MeanScaled needs eps >= 0, got {eps}")
        self.eps = eps

    def compute(self, experience: Experience) -> Advantages:
        groups = group_statistics(experience.rewards, experience.group, experience.scorable)
        silent = groups.zero_variance | (groups.mean <= 0)
        scaled = (experience.rewards.double() - groups.mean) / torch.where(silent, 1.0, groups.mean + self.eps)
        return Advantages(broadcast_to_tokens(torch.where(silent, 0.0, scaled), experience))


class MaxRL(GroupRelative):
    """Maximum likelihood reinforcement learning.

    GRPO with the group's mean in place of its standard deviation, every token weighing the same, and no KL.

    Source: Tajwar et al. 2026, arXiv:2602.02710.
    """

    best_for = "right answers that are rare at first, and a policy that may be sampled several times in the end"

    advantage = MeanScaled()
    aggregation = TokenMean()
