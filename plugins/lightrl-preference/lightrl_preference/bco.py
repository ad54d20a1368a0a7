"""BCO (Jung et al. 2024, arXiv:2404.04656): a classifier of good and bad completions, whose logit is the implicit reward."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from lightrl import LabelledObjective, Likelihood, WithStatistics
from lightrl_preference.implicit_reward import ImplicitReward


class BCO(ImplicitReward, LabelledObjective):
    """Binary classifier optimisation: cross-entropy of the labels, with rewards shifted to lie around 0.

    loss = -log sigmoid(r - d) of a good completion and -log sigmoid(d - r) of a bad one, with r = beta (log pi(y | x) -
    log pi_ref(y | x)), the implicit reward, and d the middle between the mean reward of good and of bad completions, without gradient.
    The means are over the optimizer step and all ranks, where the paper averages over steps too; of a step with one label alone, d is
    its mean.

    Source: Jung et al. 2024, arXiv:2404.04656, section 4; without its weights for prompts that differ between the labels.
    """

    needs_step = True

    def from_step(self, completions: Likelihood, good: Tensor) -> dict[str, Tensor]:
        """d of the step."""
        rewards = self.reward(completions).detach()
        means = [rewards[chosen].mean() for chosen in (good, ~good) if chosen.any()]
        return {"reward_shift": torch.stack(means).mean() if means else rewards.new_zeros(())}

    def loss(self, completions: Likelihood, good: Tensor) -> WithStatistics:
        shift = completions.prepared["reward_shift"]
        logit = self.reward(completions) - shift
        return WithStatistics(-F.logsigmoid(torch.where(good, logit, -logit)), {"reward_shift": shift})
