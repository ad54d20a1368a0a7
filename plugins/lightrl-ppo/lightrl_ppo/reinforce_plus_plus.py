"""REINFORCE++ (Hu et al. 2025, arXiv:2501.03262), alone and with the group's mean as baseline."""

from typing import Annotated, Literal

import torch
from annotated_types import Ge
from torch import Tensor

from lightrl import (
    Advantages,
    Algorithm,
    DiscountedReturn,
    Experience,
    GroupSampler,
    KLPenalty,
    Moments,
    SequenceMean,
    SymmetricClip,
    TokenMean,
    group_statistics,
    moments,
)


class WhitenedReturn(DiscountedReturn):
    """Returns, whitened over the rollout of all ranks.

    A_t = (G_t - mean) / sqrt(var + eps), statistics (ddof 1) over the rows' returns or over all tokens. With the group as baseline
    A_t = (G_t - mean_g) / sqrt(var + eps), var of what is left; the mean of that is not taken off again, so that a group of
    equal rewards gives exactly 0. All 0 where fewer than two values are there or all are equal.

    Source: Hu et al. 2025 (REINFORCE++), arXiv:2501.03262, eqs. 8-10.
    """

    def __init__(
        self,
        over: Literal["rows", "tokens"] = "rows",
        baseline: Literal["none", "group"] = "none",
        gamma: float = 1.0,
        eps: Annotated[float, Ge(0)] = 1e-8,
    ) -> None:
        """
        Args:
            over: what the statistics count: each row's return from its first token on once (the paper), or each token's return
                (verl, OpenRLHF), where long rows count more.
            baseline: `group` takes the mean reward of the row's group off first.
            gamma: discount per token, in [0, 1].
            eps: added to the variance; at least 0.

        Raises:
            ValueError: an argument outside its range.
        """
        super().__init__(gamma)
        self.over, self.baseline, self.eps = over, baseline, eps

    @property
    def compares(self) -> bool:
        return self.baseline == "group"

    def compute(self, experience: Experience) -> Advantages:
        mask = experience.response_mask & experience.scorable[:, None]
        returns, start = self.returns(experience).double(), mask.int().argmax(1, keepdim=True)
        # a row without response tokens has its reward and no token to return it from
        first = torch.where(mask.any(1), returns.gather(1, start)[:, 0], experience.rewards.double())
        if self.baseline == "group":
            groups = group_statistics(first, experience.group, experience.scorable)
            returns = torch.where(groups.zero_variance[:, None], 0.0, returns - groups.mean[:, None])
            first = torch.where(groups.zero_variance, 0.0, first - groups.mean)
        values = first[experience.scorable] if self.over == "rows" else returns[mask]
        whitened = torch.where(mask, self._whitened(returns, moments(values, experience.ranks)), 0.0)
        return Advantages(whitened.to(experience.token_rewards.dtype))

    def _whitened(self, returns: Tensor, of_all: Moments) -> Tensor:
        if of_all.constant():
            return torch.zeros_like(returns)
        mean = 0.0 if self.baseline == "group" else of_all.mean
        return (returns - mean) / (of_all.variance(1) + self.eps) ** 0.5


class ReinforcePlusPlus(Algorithm):
    """PPO without a critic: returns whitened over the whole batch, the clip, and a k1 penalty per token in the reward.

    A_t = (G_t - mean) / std over the batch, r_t = -beta k1_t + [last token] R, gamma 1.

    Source: Hu et al. 2025, arXiv:2501.03262, eqs. 1 and 8-10.
    """

    best_for = "one completion per prompt and many different prompts; hard to game by a prompt that is easy"

    sampler = GroupSampler(group_size=1)
    advantage = WhitenedReturn()
    clip = SymmetricClip(epsilon=0.2)
    aggregation = SequenceMean()
    kl = KLPenalty(estimator="k1", reward_coefficient=0.001)


class ReinforcePlusPlusBaseline(ReinforcePlusPlus):
    """REINFORCE++ with the mean of the prompt's completions taken off first, and the penalty (k2) in the loss.

    A_i = (R_i - mean_g(R)) / std over the batch of what is left; every token weighs the same.

    Source: Hu et al. 2025, arXiv:2501.03262, section 3.3; penalty and group size as OpenRLHF runs it.
    """

    best_for = "groups of completions where the batch's deviation is a steadier scale than each group's own"

    sampler = ReinforcePlusPlus.sampler.but(group_size=8)
    advantage = ReinforcePlusPlus.advantage.but(baseline="group")
    aggregation = TokenMean()
    kl = KLPenalty(estimator="k2", loss_coefficient=0.001)
