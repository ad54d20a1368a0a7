"""GPG's advantage: centred rewards, scaled up for the groups that teach nothing."""

import torch

from lightrl import Advantage, Advantages, Experience, broadcast_to_tokens, group_statistics


class GroupCenteredScaled(Advantage):
    """Reward minus the mean of its group, times the inverse share of rows in groups with a signal.

    A_i = alpha (R_i - mean_g(R)), alpha = B / (B - M), B the scorable rows of all ranks and M those in groups whose rewards are
    all equal; 0 where no group has a signal.

    Source: Chu et al. 2025 (GPG), arXiv:2504.02546, section 3, with F_norm = 1.
    """

    baseline = "group"

    def compute(self, experience: Experience) -> Advantages:
        statistics = group_statistics(experience.rewards, experience.group, experience.scorable)
        alive = experience.scorable & ~statistics.zero_variance
        counted, with_signal = experience.ranks.total(torch.stack([experience.scorable.sum(), alive.sum()]).double())
        alpha = counted / with_signal.clamp(min=1)
        centred = torch.where(statistics.zero_variance, 0.0, alpha * (experience.rewards.double() - statistics.mean))
        return Advantages(broadcast_to_tokens(centred, experience), statistics={"gpg/alpha": alpha.expand(len(experience))})
