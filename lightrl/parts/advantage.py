"""Advantages: how much better than expected was a token?"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

import torch
from annotated_types import Ge, Le
from torch import Tensor

from lightrl.ops.moments import TOLERANCE, group_statistics, moments, whiten
from lightrl.parts.base import Part
from lightrl.ranges import NonNegative, Share
from lightrl.ranks import Ranks
from lightrl.types import Experience, Statistics


def generalised_advantages(rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: Tensor | float) -> Tensor:
    """`[N, L]` advantages from per-token rewards and values, 0 outside the mask.

    delta_t = r_t + gamma V_{t+1} - V_t and A_t = delta_t + gamma lambda A_{t+1}, where t + 1 is the next masked-in token
    and V after the last one is 0.

    Source: Schulman et al. 2016, arXiv:1506.02438, eq. 16.

    Args:
        rewards: `[N, L]`, on the tokens that earned them.
        values: `[N, L]`, expected before token t is emitted.
        mask: `[N, L]` bool, tokens of the policy; gaps are skipped and carry nothing.
        gamma: discount per token, in [0, 1].
        lam: lambda in [0, 1], one number or `[N]`.
    """
    lam = torch.as_tensor(lam, dtype=values.dtype, device=values.device)
    advantage = next_value = values.new_zeros(len(values))
    columns = []
    for t in range(values.shape[1] - 1, -1, -1):
        here = mask[:, t]
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        advantage = torch.where(here, delta + gamma * lam * advantage, advantage)
        next_value = torch.where(here, values[:, t], next_value)
        columns.append(torch.where(here, advantage, 0.0))
    return torch.stack(columns[::-1], dim=1) if columns else torch.zeros_like(values)


@dataclass(frozen=True)
class Advantages:
    """The result of an advantage part, for the rows that it was given."""

    advantages: Tensor
    """`[N, L]`, 0 outside the response and on rows that are not scorable."""
    returns: Tensor | None = None
    """`[N, L]`, what the critic is fitted to; None if the part has no critic."""
    statistics: Statistics = field(default_factory=dict)
    """Named numbers per row or token."""
    extras: Mapping[str, Tensor] = field(default_factory=dict)
    """`[N]` or `[N, L]` by name: what it learnt of the rows; the names are those of `Part.gives`."""


class Advantage(Part):
    """Turns the rewards of a rollout into an advantage per token."""

    needs_rewards: bool = True
    """False: a run needs no rewards, as where a teacher is learnt from, and those that are there are logged."""

    @abstractmethod
    def compute(self, experience: Experience) -> Advantages:
        """Advantages of the rows of this rank.

        Args:
            experience: rows in whole groups; `advantages` and `returns` are not filled yet. Rows that are not `scorable` must not
                enter any statistic and get 0. What counts rows or tokens beyond their group needs the other ranks: `whiten` and
                `moments` with `experience.ranks`, or sums by `experience.ranks.total`. A part with `all_tokens` among its `needs` is
                given the rows of all ranks, which then travel to every rank.
        """

    def commit(self) -> None:
        """Called after the optimizer steps of this rollout have happened: statistics over rollouts are written here."""


def broadcast_to_tokens(row_values: Tensor, experience: Experience) -> Tensor:
    """`[N, L]`: a value per row on each of its response tokens, 0 elsewhere and on rows that are not scorable."""
    mask = experience.response_mask & experience.scorable[:, None]
    return torch.where(mask, row_values.to(experience.token_rewards.dtype)[:, None], 0.0)


class NoAdvantage(Advantage):
    """0 for every token: all that is learnt comes from the other terms of the loss.

    A_t = 0.

    Source: Agarwal et al. 2023 (GKD), arXiv:2306.13649, algorithm 1, which has no reward.
    """

    needs_rewards = False

    def compute(self, experience: Experience) -> Advantages:
        return Advantages(torch.zeros_like(experience.token_rewards))


class GroupCentered(Advantage):
    """Reward minus the mean of its group.

    A_i = R_i - mean_g(R), on every token of the row; exactly 0 where the rewards of a group are equal.

    Source: Liu et al. 2025 (Dr.GRPO), arXiv:2503.20783.
    """

    compares = True

    def compute(self, experience: Experience) -> Advantages:
        statistics = group_statistics(experience.rewards, experience.group, experience.scorable)
        centred = torch.where(statistics.zero_variance, 0.0, experience.rewards.double() - statistics.mean)
        return Advantages(broadcast_to_tokens(centred, experience))


class GroupNormalized(Advantage):
    """Reward minus the mean of its group, divided by a standard deviation.

    A_i = (R_i - mean_g(R)) / (std(R) + eps), on every token of the row; exactly 0 where the rewards of a group are equal.

    Source: Shao et al. 2024 (GRPO), arXiv:2402.03300, section 4.1.2; std over the batch: Liu et al. 2025 (Lite PPO), arXiv:2508.08221.
    """

    compares = True

    def __init__(self, std: Literal["group", "batch"] = "group", ddof: Annotated[int, Ge(0), Le(1)] = 1, eps: NonNegative = 1e-6) -> None:
        """
        Args:
            std: over which rows the deviation is taken: the row's group, or all scorable rows (raw rewards).
            ddof: 1 divides the squares by count - 1 (TRL, verl, OpenRLHF), 0 by the count.
            eps: added to the deviation; at least 0.

        Raises:
            ValueError: ddof is neither 0 nor 1, or eps is negative.
        """
        self.std, self.ddof, self.eps = std, ddof, eps

    def compute(self, experience: Experience) -> Advantages:
        rows = self.normalised(experience.rewards, experience.group, experience.scorable, experience.ranks)
        return Advantages(broadcast_to_tokens(rows, experience))

    def normalised(self, values: Tensor, group: Tensor, valid: Tensor, ranks: Ranks) -> Tensor:
        """`[N]` float64: values `[N]`, where valid, less the mean of their group, by the deviation; `ranks` share that of the batch."""
        of_group = group_statistics(values, group, valid, self.ddof)
        deviation = of_group.std
        if self.std == "batch":
            whole = moments(values[valid], ranks)
            deviation = torch.full_like(of_group.std, 0.0 if whole.constant(TOLERANCE) else whole.variance(self.ddof) ** 0.5)
        scale = deviation + self.eps
        return torch.where(of_group.zero_variance | (scale == 0), 0.0, (values.double() - of_group.mean) / scale)


class LeaveOneOut(Advantage):
    """Reward minus the mean of the others in its group.

    A_i = R_i - sum_{j != i} R_j / (G - 1) = G / (G - 1) (R_i - mean_g(R)), G counting scorable rows.

    Source: Ahmadian et al. 2024 (RLOO), arXiv:2402.14740.
    """

    compares = True

    def compute(self, experience: Experience) -> Advantages:
        statistics = group_statistics(experience.rewards, experience.group, experience.scorable)
        factor = statistics.count / (statistics.count - 1).clamp(min=1)
        centred = torch.where(statistics.zero_variance, 0.0, factor * (experience.rewards.double() - statistics.mean))
        return Advantages(broadcast_to_tokens(centred, experience))


class DiscountedReturn(Advantage):
    """The discounted sum of the rewards that are still to come, compared with nothing.

    G_t = sum_{k >= t} gamma^(k - t) r_k over the response tokens; with gamma 1 and one reward at the end, A_t = R.

    Source: Williams 1992 (REINFORCE), Machine Learning 8; Sutton et al. 2000.
    """

    def __init__(self, gamma: Share = 1.0) -> None:
        """
        Args:
            gamma: discount per token, or per turn where a turn is the action; in [0, 1].

        Raises:
            ValueError: gamma outside [0, 1].
        """
        self.gamma = gamma

    def compute(self, experience: Experience) -> Advantages:
        return Advantages(self.returns(experience))

    def returns(self, experience: Experience) -> Tensor:
        """`[N, L]`: G_t on the response tokens of scorable rows, 0 elsewhere."""
        mask = experience.response_mask & experience.scorable[:, None]
        # the advantage over a critic that expects nothing
        nothing = torch.zeros_like(experience.token_rewards)
        return generalised_advantages(experience.token_rewards, nothing, mask, self.gamma, 1.0)


class GAE(Advantage):
    """Generalised advantage estimation against a critic, whitened over the batch.

    delta_t = r_t + gamma V_{t+1} - V_t, A_t = delta_t + gamma lambda A_{t+1}; returns = A + V before whitening. Whitened
    rewards are (r - mean) / sqrt(var + 1e-8) + mean.

    Source: Schulman et al. 2016, arXiv:1506.02438, eq. 16.
    """

    needs = frozenset({"values"})

    def __init__(self, gamma: Share = 1.0, lam: Share = 0.95, whitened: bool = True, whitened_rewards: bool = False) -> None:
        """
        Args:
            gamma: discount per token, or per turn where a turn is the action; in [0, 1].
            lam: lambda in [0, 1]: 0 trusts the critic, 1 the return.
            whitened: give the advantages zero mean and unit variance over all tokens of all ranks.
            whitened_rewards: give the token rewards, KL included, unit variance over all tokens of all ranks, their mean kept.

        Raises:
            ValueError: gamma or lam outside [0, 1].
        """
        self.gamma, self.lam, self.whitened, self.whitened_rewards = gamma, lam, whitened, whitened_rewards

    def compute(self, experience: Experience) -> Advantages:
        if experience.values is None:
            raise ValueError(f"{type(self).__name__} needs the values of a critic: give the algorithm one, for example critic: ValueHead")
        mask = experience.response_mask & experience.scorable[:, None]
        rewards = experience.token_rewards
        if self.whitened_rewards:
            rewards = whiten(rewards, mask, shift_mean=False, ranks=experience.ranks)
        raw, returns = self.estimates(rewards, experience.values, mask)
        return Advantages(whiten(raw, mask, ranks=experience.ranks) if self.whitened else raw, returns)

    def estimates(self, rewards: Tensor, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Advantages before whitening, and the targets of the critic, both `[N, L]` and 0 outside the mask, as are all arguments."""
        raw = generalised_advantages(rewards, values, mask, self.gamma, self.lam)
        return raw, torch.where(mask, raw + values, 0.0)
