"""A sampler in one file: draw many completions of a prompt, and learn from the few that differ most.

    lightrl fit --config grpo_sort --model.algorithm.sampler custom_sampler.MaxVariance --model.algorithm.sampler.group_size 8

Run it from the folder of this file. In a package, a hook `lightrl_samplers` that returns the class gives it a short name.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lightrl import Collection, Sampler, ScoredRollout


class MaxVariance(Sampler):
    """Completes each prompt `sampled` times and keeps the `group_size` completions whose rewards vary most.

    Generating is cheap and can be done all at once; learning is not. The subset of largest variance is always some of the highest
    rewards and some of the lowest. Completions without a score are kept only where too few have one.

    Source: Xu et al. 2025 (PODS), arXiv:2504.13818, theorem 1.
    """

    def __init__(self, group_size: int = 8, sampled: int = 16) -> None:
        """
        Args:
            group_size: completions per prompt that are learnt from; at least 2.
            sampled: completions per prompt that are drawn; at least group_size.

        Raises:
            ValueError: the numbers do not fit.
        """
        if not 2 <= group_size <= sampled:
            raise ValueError(f"MaxVariance needs 2 <= group_size <= sampled, got {group_size} and {sampled}")
        self.group_size, self.sampled = group_size, sampled

    def collect(self, collection: Collection) -> ScoredRollout:
        scored = collection.rollout_and_score(collection.draw(collection.prompts), self.sampled)
        rewards = collection.reward(scored)
        collection.report("sampling/reward_of_all", rewards, reduce="mean")
        rows = torch.arange(len(scored)).split(self.sampled)
        kept = [group[most_varied(rewards[group], self.group_size)] for group in rows]
        return scored.select(torch.cat(kept)) if kept else scored


def most_varied(rewards: Tensor, count: int) -> Tensor:
    """`[count]` indices in ascending order: those of `[n]` rewards whose variance is largest, NaN last."""
    order = rewards.argsort()  # NaN sorts behind every number
    known = int(rewards.isfinite().sum())
    if known <= count:
        return order[:count].sort().values
    cuts = [torch.cat([order[:low], order[known - count + low : known]]) for low in range(count + 1)]
    return max(cuts, key=lambda rows: float(rewards[rows].double().var(correction=0))).sort().values
