"""The numbers a rollout reports, under the names that the field's dashboards know."""

from __future__ import annotations

import torch
from torch import Tensor

from lightrl.algorithms.extras import GIVEN
from lightrl.ops.groups import group_statistics
from lightrl.ops.kl import k3
from lightrl.parts.base import unpack
from lightrl.parts.correction import RolloutCorrection
from lightrl.parts.minibatch import Minibatch
from lightrl.parts.output import OLD, Output
from lightrl.ranks import ALONE, Ranks
from lightrl.rewards.reward_set import RewardSet
from lightrl.training.reports.rollout_lengths import report_lengths
from lightrl.training.reports.statistics import StatisticsLedger
from lightrl.types import Experience, PolicyOutput, TrainingBatch


def report_experience(
    ledger: StatisticsLedger,
    experience: TrainingBatch,
    rewards: RewardSet,
    correction: RolloutCorrection | None,
    watched: Output | None,
    ranks: Ranks = ALONE,
) -> None:
    """Rewards in total and by component, groups without signal, advantages, lengths, and the entropy of the samples.

    Args:
        ledger: receives the numbers.
        experience: rows of this rank, advantages included.
        rewards: that scored them.
        correction: of the distance between engine and trainer; None: there is none.
        watched: a number of the policy that sampled; None: there is none.
        ranks: that share the rollout.
    """
    scored = experience.scorable
    if rewards.rewards:
        report_rewards(ledger, experience, rewards)
    ledger.add("unscorable", (~scored).double(), reduce="sum")
    ledger.add("unscorable_ratio", (~scored).double())
    report_advantages(ledger, experience.advantages, experience.response_mask & scored[:, None])
    report_lengths(ledger, experience)
    # an unbiased estimate where every token can be sampled; a part that needs the exact entropy reports it as `entropy`
    sampled = ~experience.extras.get(GIVEN, torch.zeros_like(scored))
    ledger.add("entropy_estimate", -experience.rollout_logprobs, experience.response_mask & sampled[:, None])
    if watched is not None:
        ledger.add(f"watched/{watched.name}", experience.extra(f"{OLD}{watched.name}"), experience.response_mask)
    if experience.ref_logprobs is not None:
        difference = experience.old_logprobs - experience.ref_logprobs
        ledger.add("kl_sequence", torch.where(experience.response_mask, difference, 0.0).sum(1))
    if correction is not None:
        _report_correction(ledger, correction, experience, ranks)
    if experience.returns is not None and experience.values is not None:
        report_critic(ledger, experience.values, experience.returns, experience.response_mask & scored[:, None])


def report_rewards(ledger: StatisticsLedger, experience: TrainingBatch, rewards: RewardSet) -> None:
    """Rewards in total and by component, groups without signal, and lengths by reward.

    Args:
        ledger: receives the numbers.
        experience: rows of this rank.
        rewards: that scored them.
    """
    scored = experience.scorable
    groups = group_statistics(experience.rewards, compared(experience.group), scored)
    ledger.add("reward", experience.rewards, scored)
    ledger.add("reward_std", groups.std, scored)
    ledger.add("frac_reward_zero_std", groups.zero_variance.double(), scored)
    ledger.add_all(rewards.statistics(experience), experience.response_mask)
    lengths = experience.response_lengths.double()
    positive = experience.rewards > 0
    ledger.add("completions/mean_length_right", lengths, positive & scored)
    ledger.add("completions/mean_length_wrong", lengths, ~positive & scored)
    ledger.add("completions/length_reward_correlation", length_reward_correlation(experience))


def compared(group: Tensor) -> Tensor:
    """The groups whose rows are compared: one of all rows where every prompt has a single completion.

    Args:
        group: `[N]` int64.
    """
    return torch.zeros_like(group) if len(torch.unique(group)) == len(group) else group


def length_reward_correlation(experience: Experience) -> Tensor:
    """Pearson's correlation of length and reward over scorable rows, each less the mean of its group; NaN if either is constant."""
    valid, group = experience.scorable, compared(experience.group)

    def centered(values: Tensor) -> Tensor:
        return torch.where(valid, values.double() - group_statistics(values, group, valid).mean, 0.0)

    lengths, rewards = centered(experience.response_lengths), centered(experience.rewards)
    spread = (lengths**2).sum() * (rewards**2).sum()
    noise = 1e-12 * (experience.rewards[valid].double() ** 2).sum()
    return torch.where((rewards**2).sum() > noise, (lengths * rewards).sum() / spread.sqrt(), torch.nan)


def report_advantages(ledger: StatisticsLedger, advantages: Tensor, mask: Tensor) -> None:
    """Mean, standard deviation and extremes of the advantages over tokens."""
    chosen = advantages[mask].double()
    ledger.add("advantages/mean", chosen)
    if chosen.numel() > 1:
        ledger.add("advantages/std", chosen.std())
    ledger.add("advantages/min", chosen, reduce="min")
    ledger.add("advantages/max", chosen, reduce="max")


def _report_correction(ledger: StatisticsLedger, correction: RolloutCorrection, experience: TrainingBatch, ranks: Ranks) -> None:
    """The distance of engine and trainer on the same weights, and the share of the sample that the correction leaves.

    A correction that looks at all rows of a step is asked as if the whole rollout were one.

    `correction/ess`: (sum w)^2 / (n sum w^2) over this rank's n tokens, averaged over ranks; 1 = all weights are equal.
    `correction/kl`: KL(engine || trainer), k3, mean over tokens in nats.
    """
    mask = experience.token_weight > 0
    old, rollout = experience.old_logprobs, experience.rollout_logprobs
    prepared = correction.prepare(Minibatch(experience, PolicyOutput(old), ranks=ranks))
    weights, statistics = unpack(correction.given({**experience.extras, **prepared}).weights(old, rollout, mask))
    ledger.add_all({"correction/mean": weights, "correction/kl": k3(rollout, old)}, mask)
    ledger.add_all(statistics, mask, correction)
    w = weights[mask].double()
    if w.numel():
        ledger.add("correction/ess", w.sum() ** 2 / (w.numel() * (w**2).sum()).clamp(min=torch.finfo(w.dtype).tiny))


def report_critic(ledger: StatisticsLedger, values: Tensor, returns: Tensor, mask: Tensor) -> None:
    """Explained variance, 1 - Var(returns - values) / Var(returns), and the means of both."""
    v, r = values[mask].double(), returns[mask].double()
    ledger.add("values/mean", v)
    ledger.add("returns/mean", r)
    if r.numel() > 1 and float(r.var()) > 0:
        ledger.add("explained_variance", 1 - (r - v).var() / r.var())
