"""GDPO (Liu et al. 2026, arXiv:2601.05242): several rewards, each normalised by itself before they are added up."""

from __future__ import annotations

import torch

from lightrl import Advantage, Advantages, Experience, GroupRelative, TokenMean, broadcast_to_tokens, moments


class BatchNormalized(Advantage):
    """Reward minus the mean of the batch, divided by its standard deviation.

    A_i = (R_i - mean(R)) / (std(R) + eps) over the scorable rows of all ranks, on every token of the row; 0 where all are equal.

    Source: Liu et al. 2026 (GDPO), arXiv:2601.05242, the normalisation of the sum over the batch.
    """

    baseline = "batch"

    def __init__(self, eps: float = 1e-6) -> None:
        """
        Args:
            eps: added to the deviation; at least 0.

        Raises:
            ValueError: eps is negative.
        """
        if not 0 <= eps < float("inf"):
            raise ValueError(f"BatchNormalized needs eps >= 0, got {eps}")
        self.eps = eps

    def compute(self, experience: Experience) -> Advantages:
        rewards = experience.rewards.double()
        of_all = moments(rewards[experience.scorable], experience.ranks)
        if of_all.count < 2 or of_all.constant():
            return Advantages(torch.zeros_like(experience.token_rewards))
        return Advantages(broadcast_to_tokens((rewards - of_all.mean) / (of_all.variance(1) ** 0.5 + self.eps), experience))


class GDPO(GroupRelative):
    """Group reward-decoupled normalisation policy optimisation.

    A = batch-normalised sum_k w_k (r_k - mean_g(r_k)) / std_g(r_k). The rewards do the inner part: give each of them
    `normalize: group`, and the weights w_k are theirs. The rest is GRPO with every token weighing the same, and no KL.

    Source: Liu et al. 2026, arXiv:2601.05242.
    """

    best_for = "several rewards of different scales, none of which is to drown the others"

    advantage = BatchNormalized()
    aggregation = TokenMean()
