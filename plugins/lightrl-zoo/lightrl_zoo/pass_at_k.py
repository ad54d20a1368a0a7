"""Pass@k training (Chen et al. 2025, arXiv:2508.10751): the reward is that one of k completions is right."""

from __future__ import annotations

import torch
from torch import Tensor

from lightrl import Advantage, Advantages, DecoupledClip, Experience, GroupRelative, TokenMean, broadcast_to_tokens, group_statistics


class PassAtK(Advantage):
    """The advantage of a completion as a member of all sets of k completions of its group, in closed form.

    With n completions of which w are wrong, Q = 1 - C(w, k) / C(n, k) the share of sets with a right one, and s = sqrt(Q (1 - Q)):
    A = (1 - Q) / s of a right completion, and (1 - Q - C(w - 1, k - 1) / C(n - 1, k - 1)) / s of a wrong one; 0 where s is 0 or
    n < k.

    Source: Chen et al. 2025, arXiv:2508.10751, eqs. 11, 12, 14 and 15; k = 4 as in its experiments.
    """

    baseline = "group"

    def __init__(self, k: int = 4, threshold: float = 0.0) -> None:
        """
        Args:
            k: completions of a set; at least 1, and below the sampler's group_size to tell completions apart.
            threshold: a completion is right if its reward is above this.

        Raises:
            ValueError: k below 1.
        """
        if k < 1:
            raise ValueError(f"PassAtK needs k >= 1, got {k}")
        self.k, self.threshold = k, threshold

    def compute(self, experience: Experience) -> Advantages:
        right = experience.rewards > self.threshold
        groups = group_statistics(right.double(), experience.group, experience.scorable)
        n, wrong = groups.count, (groups.count * (1 - groups.mean)).round()
        failing = _share_of_sets(wrong, n, self.k)
        scale = (failing * (1 - failing)).sqrt()
        silent = (scale == 0) | (n < self.k)
        among_wrong = torch.where(right, 0.0, _share_of_sets(wrong - 1, n - 1, self.k - 1))
        advantages = torch.where(silent, 0.0, (failing - among_wrong) / torch.where(silent, 1.0, scale))
        passing = torch.where(experience.scorable, 1 - failing, torch.nan)
        return Advantages(broadcast_to_tokens(advantages, experience), statistics={"pass_at_k/rate": passing})


def _share_of_sets(chosen: Tensor, of: Tensor, k: int) -> Tensor:
    """`[N]`: C(chosen, k) / C(of, k), as a product that does not overflow; 1 for k = 0."""
    less = torch.arange(k, dtype=of.dtype, device=of.device)
    return ((chosen[:, None] - less).clamp(min=0) / (of[:, None] - less).clamp(min=1)).prod(1)


class PassAtKTraining(GroupRelative):
    """Training for pass@k in place of pass@1.

    DAPO's loss with the advantage of pass@k; no KL. Groups in which fewer than k completions are wrong teach nothing any more.

    Source: Chen et al. 2025, arXiv:2508.10751, section 2.4.
    """

    best_for = "keeping answers diverse: prompts that are solved now and then already are left alone"

    sampler = GroupRelative.sampler.but(group_size=32)
    advantage = PassAtK()
    clip = DecoupledClip(low=0.2, high=0.28)
    aggregation = TokenMean()
