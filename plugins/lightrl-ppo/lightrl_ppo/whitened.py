"""The advantage of REINFORCE++."""

from typing import Literal

import torch
from torch import Tensor

from lightrl import Advantages, DiscountedReturn, Experience, Moments, group_statistics, moments


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
        eps: float = 1e-8,
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
        if over not in ("rows", "tokens") or baseline not in ("none", "group") or eps < 0:
            raise ValueError(
                "WhitenedReturn needs over 'rows' or 'tokens', baseline 'none' or 'group' and eps >= 0, "
                f"got {over!r}, {baseline!r} and {eps}"
            )
        self.over, self.baseline, self.eps = over, baseline, eps

    @property
    def against(self) -> str:
        """See `Advantage.against`."""
        return "its group, in units of the batch" if self.baseline == "group" else "the batch"

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
