"""Advantages with another measure than the deviation of a group: MaxRL, GDPO, pass@k and VAPO."""

from typing import Annotated

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor

from lightrl import (
    Advantage,
    Advantages,
    DecoupledClip,
    Experience,
    GroupRelative,
    TokenMean,
    broadcast_to_tokens,
    generalised_advantages,
    group_statistics,
    moments,
    whiten,
)


class MeanScaled(Advantage):
    """Reward minus the mean of its group, divided by that mean.

    A_i = (R_i - mean_g(R)) / (mean_g(R) + eps), on every token of the row; 0 where the rewards of a group are equal or their mean is
    not above 0. For rewards of at least 0, such as 1 for a right answer: the mean is then the share of right ones, and the expected
    gradient that of the log-likelihood of a right answer, its Maclaurin series cut after G - 1 terms.

    Source: Tajwar et al. 2026 (MaxRL), arXiv:2602.02710, algorithm 1 and theorem 5; eps as in the authors' code.
    """

    compares = True

    def __init__(self, eps: Annotated[float, Ge(0)] = 1e-6) -> None:
        """
        Args:
            eps: added to the mean; at least 0.
        """
        self.eps = eps

    def compute(self, experience: Experience) -> Advantages:
        groups = group_statistics(experience.rewards, experience.group, experience.scorable)
        silent = groups.zero_variance | (groups.mean <= 0)
        scaled = (experience.rewards.double() - groups.mean) / torch.where(silent, 1.0, groups.mean + self.eps)
        return Advantages(broadcast_to_tokens(torch.where(silent, 0.0, scaled), experience))


class MaxRL(GroupRelative):
    """Maximum likelihood reinforcement learning.

    GRPO with the group's mean in place of its standard deviation, every token weighing the same, and no KL.

    Source: Tajwar et al. 2026, arXiv:2602.02710.
    """

    best_for = "right answers that are rare at first, and a policy that may be sampled several times in the end"

    advantage = MeanScaled()
    aggregation = TokenMean()


class BatchNormalized(Advantage):
    """Reward minus the mean of the batch, divided by its standard deviation.

    A_i = (R_i - mean(R)) / (std(R) + eps) over the scorable rows of all ranks, on every token of the row; 0 where all are equal.

    Source: Liu et al. 2026 (GDPO), arXiv:2601.05242, the normalisation of the sum over the batch.
    """

    def __init__(self, eps: Annotated[float, Ge(0)] = 1e-6) -> None:
        """
        Args:
            eps: added to the deviation; at least 0.
        """
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


class PassAtK(Advantage):
    """The advantage of a completion as a member of all sets of k completions of its group, in closed form.

    With n completions of which w are wrong, Q = 1 - C(w, k) / C(n, k) the share of sets with a right one, and s = sqrt(Q (1 - Q)):
    A = (1 - Q) / s of a right completion, and (1 - Q - C(w - 1, k - 1) / C(n - 1, k - 1)) / s of a wrong one; 0 where s is 0 or
    n < k.

    Source: Chen et al. 2025, arXiv:2508.10751, eqs. 11, 12, 14 and 15; k = 4 as in its experiments.
    """

    compares = True

    def __init__(self, k: Annotated[int, Ge(1)] = 4, threshold: float = 0.0) -> None:
        """
        Args:
            k: completions of a set; at least 1, and below the sampler's group_size to tell completions apart.
            threshold: a completion is right if its reward is above this.
        """
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


class BestOverSecond(Advantage):
    """The best completion of a group against the second best, which is what it adds to the best of the group; the others have none.

    A_i = R_i - second largest R of the group, or 0, for the completion with the largest R, divided by std_g(R) + eps if `normalized`; 0 for
    all of a group whose two best are equal, or that has fewer than two scorable completions.

    Source: verl's `adv_estimator: grpo_passk`, after arXiv:2503.19595.
    """

    compares = True

    def __init__(self, normalized: bool = False, eps: Annotated[float, Ge(0)] = 1e-6) -> None:
        """
        Args:
            normalized: divide by the standard deviation of the group.
            eps: added to the deviation; at least 0.
        """
        self.normalized, self.eps = normalized, eps

    def compute(self, experience: Experience) -> Advantages:
        rewards, group = experience.rewards.double(), experience.group
        advantages = torch.zeros_like(rewards)
        for number in torch.unique(group[experience.scorable]).tolist():
            rows = ((group == number) & experience.scorable).nonzero()[:, 0]
            if len(rows) > 1:
                best = rewards[rows].topk(2)
                scale = rewards[rows].std() + self.eps if self.normalized else 1.0
                advantages[rows[best.indices[0]]] = (best.values[0] - best.values[1]) / scale
        return Advantages(broadcast_to_tokens(advantages, experience))


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


class LengthAdaptiveGAE(Advantage):
    """Decoupled, length-adaptive generalised advantage estimation.

    A is GAE with lambda = clip(1 - 1 / (alpha l), 0, 1), l the tokens of the response; returns are GAE with lambda 1 plus V,
    that is, what followed until the end of the row.

    Source: Yue et al. 2025 (VAPO), arXiv:2504.05118, sections 4.1 and 4.2.
    """

    needs = frozenset({"values"})

    def __init__(self, alpha: Annotated[float, Gt(0)] = 0.05, gamma: Annotated[float, Ge(0), Le(1)] = 1.0, whitened: bool = True) -> None:
        """
        Args:
            alpha: how fast lambda comes near 1 with the length; > 0. Rows of at most 1 / alpha tokens have lambda 0.
            gamma: discount per token, in [0, 1].
            whitened: give the advantages zero mean and unit variance over all tokens of all ranks.
        """
        self.alpha, self.gamma, self.whitened = alpha, gamma, whitened

    def compute(self, experience: Experience) -> Advantages:
        if experience.values is None:
            raise ValueError("LengthAdaptiveGAE needs the values of a critic: give the algorithm one, for example critic: ValueHead")
        mask = experience.response_mask & experience.scorable[:, None]
        rewards, values = experience.token_rewards, experience.values
        lam = (1 - 1 / (self.alpha * mask.sum(1).clamp(min=1).to(values.dtype))).clamp(0, 1)
        raw = generalised_advantages(rewards, values, mask, self.gamma, lam)
        to_the_end = generalised_advantages(rewards, values, mask, self.gamma, 1.0)
        returns = torch.where(mask, to_the_end + values, 0.0)
        return Advantages(whiten(raw, mask, ranks=experience.ranks) if self.whitened else raw, returns, {"vapo/lambda": lam})
