"""The numbers a rollout reports, under the names that the field's dashboards know."""

from __future__ import annotations

import torch
from torch import Tensor

from lightrl.algorithms.extras import GIVEN
from lightrl.ops.moments import centered, group_statistics, masked_sum
from lightrl.parts.base import Output, unpack
from lightrl.parts.correction import RolloutCorrection
from lightrl.parts.kl import KL, k3
from lightrl.parts.output import OLD
from lightrl.parts.step_part import Minibatch
from lightrl.ranks import ALONE, Ranks
from lightrl.rewards.reward_set import RewardSet
from lightrl.training.evaluating.evaluator import report_lengths
from lightrl.training.reports.statistics import Report
from lightrl.types import Experience, PolicyOutput, TrainingBatch


def report_experience(
    experience: TrainingBatch, rewards: RewardSet, correction: RolloutCorrection | None, watched: Output | None, ranks: Ranks = ALONE
) -> Report:
    """Rewards in total and by component, groups without signal, advantages, lengths, and the entropy of the samples."""
    report = Report()
    scored = experience.scorable
    if rewards.rewards:
        _report_rewards(report, experience, rewards)
    report.add("unscorable", (~scored).double(), reduce="sum")
    report.add("unscorable_ratio", (~scored).double())
    _report_advantages(report, experience.advantages, experience.response_mask & scored[:, None])
    report.entries += report_lengths(experience)
    # an unbiased estimate where every token can be sampled; a part that needs the exact entropy reports it as `entropy`
    sampled = ~experience.extras.get(GIVEN, torch.zeros_like(scored))
    report.add("entropy_estimate", -experience.rollout_logprobs, experience.response_mask & sampled[:, None])
    if watched is not None:
        report.add(f"watched/{watched.name}", experience.extra(f"{OLD}{watched.name}"), experience.response_mask)
    if experience.ref_logprobs is not None:
        difference = experience.old_logprobs - experience.ref_logprobs
        report.add("kl_sequence", torch.where(experience.response_mask, difference, 0.0).sum(1))
    if correction is not None:
        _report_correction(report, correction, experience, ranks)
    if experience.returns is not None and experience.values is not None:
        _report_critic(report, experience.values, experience.returns, experience.response_mask & scored[:, None])
    return report


def _report_rewards(report: Report, experience: TrainingBatch, rewards: RewardSet) -> None:
    """Rewards in total and by component, groups without signal, and lengths by reward."""
    scored = experience.scorable
    groups = group_statistics(experience.rewards, compared(experience.group), scored)
    report.add("reward", experience.rewards, scored)
    report.add("reward_std", groups.std, scored)
    report.add("frac_reward_zero_std", groups.zero_variance.double(), scored)
    report.add_all(rewards.statistics(experience), experience.response_mask)
    lengths = experience.response_lengths.double()
    positive = experience.rewards > 0
    report.add("completions/mean_length_right", lengths, positive & scored)
    report.add("completions/mean_length_wrong", lengths, ~positive & scored)
    report.add("completions/length_reward_correlation", length_reward_correlation(experience))


def compared(group: Tensor) -> Tensor:
    """The groups `[N]` whose rows are compared: one of all rows where every prompt has a single completion."""
    return torch.zeros_like(group) if len(torch.unique(group)) == len(group) else group


def length_reward_correlation(experience: Experience) -> Tensor:
    """Pearson's correlation of length and reward over scorable rows, each less the mean of its group; NaN if either is constant."""
    valid, group = experience.scorable, compared(experience.group)
    lengths, rewards = (centered(values, group, valid) for values in (experience.response_lengths, experience.rewards))
    spread = (lengths**2).sum() * (rewards**2).sum()
    noise = 1e-12 * (experience.rewards[valid].double() ** 2).sum()
    return torch.where((rewards**2).sum() > noise, (lengths * rewards).sum() / spread.sqrt(), torch.nan)


def _report_advantages(report: Report, advantages: Tensor, mask: Tensor) -> None:
    """Mean, standard deviation and extremes of the advantages over tokens."""
    chosen = advantages[mask].double()
    report.add("advantages/mean", chosen)
    if chosen.numel() > 1:
        report.add("advantages/std", chosen.std())
    report.add("advantages/min", chosen, reduce="min")
    report.add("advantages/max", chosen, reduce="max")


def _report_correction(report: Report, correction: RolloutCorrection, experience: TrainingBatch, ranks: Ranks) -> None:
    """The distance of engine and trainer on the same weights, and the share of the sample that the correction leaves.

    A correction that looks at all rows of a step is asked as if the whole rollout were one.

    `correction/ess`: (sum w)^2 / (n sum w^2) over this rank's n tokens, averaged over ranks; 1 = all weights are equal.
    `correction/kl`: KL(engine || trainer), k3, mean over tokens in nats.
    """
    mask = experience.token_weight > 0
    old, rollout = experience.old_logprobs, experience.rollout_logprobs
    prepared = correction.prepare(Minibatch(experience, PolicyOutput(old), ranks=ranks))
    weights, statistics = unpack(correction.given({**experience.extras, **prepared}).weights(old, rollout, mask))
    report.add_all({"correction/mean": weights, "correction/kl": k3(rollout, old)}, mask)
    report.add_all(statistics, mask, correction)
    w = weights[mask].double()
    if w.numel():
        report.add("correction/ess", w.sum() ** 2 / (w.numel() * (w**2).sum()).clamp(min=torch.finfo(w.dtype).tiny))


def _report_critic(report: Report, values: Tensor, returns: Tensor, mask: Tensor) -> None:
    """Explained variance, 1 - Var(returns - values) / Var(returns), and the means of both."""
    v, r = values[mask].double(), returns[mask].double()
    report.add("values/mean", v)
    report.add("returns/mean", r)
    if r.numel() > 1 and float(r.var()) > 0:
        report.add("explained_variance", 1 - (r - v).var() / r.var())


def observe_kl(kl: KL, batch: TrainingBatch, logprobs_now: Tensor | None, ranks: Ranks) -> Report:
    """Tell a KL part the KL of a rollout, if it is measured; gives its coefficients.

    It is KL(old || reference) of the policy that sampled or, against the old policy, KL(old || new), if its log-probs now are known.
    """
    report = Report()
    if kl.against == "old":
        if not kl.observes or logprobs_now is None:
            return report
        per_token = k3(batch.old_logprobs, logprobs_now)
    elif batch.ref_logprobs is not None:
        per_token = batch.old_logprobs - batch.ref_logprobs
    else:
        return report
    mask = batch.response_mask
    sums = (masked_sum(per_token.double(), mask), mask.sum(), torch.tensor(len(batch)))
    nats, tokens, rows = ranks.total(torch.stack([x.double().cpu() for x in sums])).tolist()
    kl.observe(nats / max(tokens if kl.unit == "token" else rows, 1), int(rows))
    report.add("kl_coefficient", kl.loss_coefficient + kl.reward_coefficient)
    return report


class Progress:
    """Sums over all rollouts, those before a resume included."""

    tokens = seconds = 0.0

    def add(self, tokens: float, seconds: float, steps: int, ranks: Ranks) -> Report:
        """The throughput of a rollout on this rank, and the sums with it."""
        report = Report()
        report.add("perf/completion_tokens", tokens, reduce="sum")
        report.add("perf/tokens_per_second", tokens / seconds, reduce="sum")
        report.add("perf/seconds", seconds, reduce="max")
        self.tokens += float(ranks.total(torch.tensor([tokens], dtype=torch.float64))[0])
        self.seconds += seconds
        for name, value in {**self.state_dict(), "optimizer_steps": float(steps)}.items():
            report.add(f"progress/{name}", value, reduce="max")
        return report

    def state_dict(self) -> dict[str, float]:
        """Both sums."""
        return {"tokens": self.tokens, "seconds": self.seconds}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Take back what `state_dict` gave."""
        self.tokens, self.seconds = state["tokens"], state["seconds"]
