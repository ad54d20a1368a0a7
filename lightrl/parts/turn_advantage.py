"""Advantages per turn: a turn of the policy is one action, and all of its tokens share what the action was worth."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from annotated_types import Ge, Le
from torch import Tensor

from lightrl.ops.turns import over_turns, turn_numbers, turn_starts, turn_sums
from lightrl.parts.advantage import GAE, Advantages, DiscountedReturn, GroupNormalized, generalised_advantages
from lightrl.ranges import NonNegative, Share
from lightrl.types import Experience


class TurnReturn(DiscountedReturn):
    """The discounted sum of the rewards of a turn and of the turns after it, compared with nothing.

    G_k = sum_{j >= k} gamma^(j - k) r_j over the turns of a row, r_j the sum of the token rewards of turn j; on every token of turn k.

    Source: Williams 1992 (REINFORCE), Machine Learning 8, with a turn as the action.
    """

    def returns(self, experience: Experience) -> Tensor:
        mask = experience.response_mask & experience.scorable[:, None]
        return over_turns(_at_starts(experience.token_rewards, mask, self.gamma), mask)


class TurnGAE(GAE):
    """Generalised advantage estimation over turns: one value per turn, that of its first token.

    delta_k = r_k + gamma V_{k+1} - V_k, A_k = delta_k + gamma lambda A_{k+1}, r_k the sum of the token rewards of turn k; on every token
    of turn k. The critic is fitted to A_k + V_k there. Whitening counts tokens.

    Source: Schulman et al. 2016, arXiv:1506.02438, eq. 16, with a turn as the action.
    """

    def estimates(self, rewards: Tensor, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        raw, targets = super().estimates(turn_sums(rewards, mask), values, turn_starts(mask))
        return over_turns(raw, mask), over_turns(targets, mask)


class TurnNormalized(GroupNormalized):
    """Return of a turn minus the mean of the turns with the same number in its group, divided by a standard deviation.

    A_ik = (G_ik - mean_g(G_k)) / (std(G_k) + eps) on every token of turn k, with G_k = sum_{j >= k} gamma^(j - k) r_j. A turn that no
    other row of its group has reached has nothing to be compared with, and gets 0.

    Source: Zeng et al. 2025 (MT-GRPO), arXiv:2505.11821, which compares the reward of a turn and the outcome apart and adds them up;
    compared here is their discounted sum.
    """

    def __init__(
        self, gamma: Share = 1.0, std: Literal["group", "batch"] = "group", ddof: Annotated[int, Ge(0), Le(1)] = 1, eps: NonNegative = 1e-6
    ) -> None:
        """
        Args:
            gamma: discount per turn, in [0, 1].
            std: over which turns the deviation is taken: those with the same number in the group, or all turns of scorable rows.
            ddof: 1 divides the squares by count - 1, 0 by the count.
            eps: added to the deviation; at least 0.

        Raises:
            ValueError: an argument outside its range.
        """
        super().__init__(std, ddof, eps)
        self.gamma = gamma

    def compute(self, experience: Experience) -> Advantages:
        rewards, mask = experience.token_rewards, experience.response_mask & experience.scorable[:, None]
        starts = turn_starts(mask)
        # a row without response tokens is compared with the first turns of the others
        whole = experience.scorable & ~mask.any(1)
        returns = torch.cat([_at_starts(rewards, mask, self.gamma)[starts], experience.rewards[whole]])
        # a group and a number of turns in one key
        key = experience.group[:, None] * mask.shape[1]
        compared = torch.cat([(key + turn_numbers(mask))[starts], key[whole, 0]])
        advantages = torch.zeros_like(rewards)
        counted = torch.ones_like(returns, dtype=torch.bool)
        normalised = self.normalised(returns, compared, counted, experience.ranks)
        advantages[starts] = normalised[: int(starts.sum())].to(rewards.dtype)
        return Advantages(over_turns(advantages, mask))


def _at_starts(rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
    """`[N, L]`: the return of each turn on its first token."""
    # the advantage over a critic that expects nothing
    return generalised_advantages(turn_sums(rewards, mask), torch.zeros_like(rewards), turn_starts(mask), gamma, 1.0)
