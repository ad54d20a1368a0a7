"""Objectives on completions that are good or bad, each without a partner: KTO, BCO and unpaired APO-zero."""

from typing import Annotated

import torch
import torch.nn.functional as F
from annotated_types import Gt
from torch import Tensor

from lightrl import LabelledObjective, Likelihood, WithStatistics
from lightrl_preference.dpo import ImplicitReward


class KTO(ImplicitReward, LabelledObjective):
    """Kahneman-Tversky optimisation: gains and losses against what the policy gains on average.

    loss = w_d (1 - sigmoid(beta (rho - z0))) of a good completion and w_u (1 - sigmoid(beta (z0 - rho))) of a bad one, with
    rho = log pi(y | x) - log pi_ref(y | x), and z0 = max(0, mean of rho over prompts with completions of other prompts), which
    estimates KL(pi || pi_ref) and has no gradient. The mean is over the whole optimizer step and all ranks. The implicit reward is
    beta rho.

    Source: Ethayarajh et al. 2024, arXiv:2402.01306, eq. 8 and section 4.1.
    """

    needs_mismatched = True

    def __init__(
        self, beta: float = 0.1, desirable_weight: Annotated[float, Gt(0)] = 1.0, undesirable_weight: Annotated[float, Gt(0)] = 1.0
    ) -> None:
        """
        Args:
            beta: how strongly the policy is held to the reference, and how soon gains and losses saturate; > 0.
            desirable_weight: w_d, of good completions; > 0. The authors advise w_d n_good / (w_u n_bad) between 1 and 4 / 3.
            undesirable_weight: w_u, of bad ones; > 0.
        """
        super().__init__(beta)
        self.desirable_weight, self.undesirable_weight = desirable_weight, undesirable_weight

    def from_mismatched(self, mismatched: Likelihood) -> dict[str, Tensor]:
        """z0 of the step; 0 where all of its prompts are the same."""
        if not len(mismatched.logprob):
            return {"kl": torch.zeros((), dtype=mismatched.logprob.dtype)}
        return {"kl": mismatched.log_ratio.detach().mean().clamp(min=0)}

    def loss(self, completions: Likelihood, good: Tensor) -> Tensor:
        kl = completions.prepared["kl"]
        gain = self.beta * (completions.log_ratio - kl)
        losses = torch.where(good, self.desirable_weight * torch.sigmoid(-gain), self.undesirable_weight * torch.sigmoid(gain))
        return WithStatistics(losses, {"kl": kl})  # type: ignore[return-value]


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


class APOZeroUnpaired(ImplicitReward, LabelledObjective):
    """Anchored preference optimisation without pairs: good completions become likelier than under the reference, bad ones less likely.

    loss = 1 - sigmoid(r) of a good completion and sigmoid(r) of a bad one, with r = beta (log pi(y | x) - log pi_ref(y | x)), the implicit
    reward: `KTO` whose reference point is 0.

    Source: D'Oosterlinck et al. 2024, arXiv:2408.06266, eq. 1 on single completions; TRL's `KTOConfig.loss_type: apo_zero_unpaired`.
    """

    def loss(self, completions: Likelihood, good: Tensor) -> Tensor:
        reward = self.reward(completions)
        return torch.sigmoid(torch.where(good, -reward, reward))
