"""From scored rollouts to training batches: rewards on tokens, KL in the reward, token weights, advantages."""

from __future__ import annotations

import warnings
from dataclasses import fields, replace
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from lightrl.algorithms.algorithm import Algorithm
from lightrl.ops.moments import row_sum
from lightrl.parts.base import unpack
from lightrl.ranks import Ranks
from lightrl.rewards.reward_set import RewardSet
from lightrl.training.online.preparation import expected
from lightrl.training.reports.statistics import Report
from lightrl.types import Experience, ScoredRollout, TrainingBatch

if TYPE_CHECKING:
    # needs Lightning, and the contract of advantages imports this module
    from lightrl.training.online.predictions import Predictions


class RolloutRewards(NamedTuple):
    """The weighted rewards of N rows."""

    tokens: Tensor
    """`[N, L]`, on the tokens that earned them."""
    step_ends: Tensor
    """`[N, L]` bool, where a reward was given."""
    rows: Tensor
    """`[N]`: the scores of rows without response tokens are read here, since no token holds them."""

    @classmethod
    def of(cls, rewards: RewardSet, scored: ScoredRollout) -> RolloutRewards:
        """Those of a rollout."""
        return cls(*rewards.token_rewards(scored), rewards.row_rewards(scored))


def experience_of(
    scored: ScoredRollout, rewards: RolloutRewards, algorithm: Algorithm, predictions: Predictions
) -> tuple[Experience, Report]:
    """Shaping, KL in the reward and token weights, in this order; with their statistics."""
    report, token_rewards = Report(), rewards.tokens
    mask = scored.response_mask
    if algorithm.shaping is not None:
        token_rewards, statistics = unpack(algorithm.shaping.rewards(scored, token_rewards))
        report.add_all(statistics, mask, algorithm.shaping)
    token_rewards, of_kl = _with_kl(token_rewards, mask, algorithm, predictions)
    report.entries += of_kl.entries
    row_weight = 1.0 if scored.row_weight is None else scored.row_weight[:, None]
    found = {f.name: getattr(scored, f.name) for f in fields(ScoredRollout)} | vars(predictions)
    experience = Experience(
        **found | {"extras": scored.extras | predictions.extras},
        token_rewards=token_rewards,
        step_ends=rewards.step_ends,
        rewards=torch.where(mask.any(1) | ~scored.scorable, row_sum(token_rewards, mask), rewards.rows.to(token_rewards.dtype)),
        token_weight=(mask & scored.scorable[:, None]).to(token_rewards.dtype) * row_weight,
    )
    if algorithm.token_weight is None:
        return experience, report
    weights, statistics = unpack(algorithm.token_weight.weights(experience))
    report.add_all(statistics, mask, algorithm.token_weight)
    weighed = torch.where(experience.token_weight > 0, experience.token_weight * weights, 0.0)
    return replace(experience, token_weight=weighed), report


def _with_kl(token_rewards: Tensor, mask: Tensor, algorithm: Algorithm, predictions: Predictions) -> tuple[Tensor, Report]:
    """`[N, L]`: token rewards less the KL penalty, where the algorithm has it in the reward."""
    report, kl, old = Report(), algorithm.kl, predictions.old_logprobs
    if kl is None or kl.reward_coefficient <= 0:
        return token_rewards, report
    penalty, statistics = unpack(kl.penalty(old, predictions.needed("ref_logprobs"), torch.zeros_like(old)))
    penalty = torch.where(mask, penalty, 0.0)
    report.add("kl_in_reward", penalty, mask)
    report.add_all(statistics, mask, kl)
    return token_rewards - kl.reward_coefficient * penalty, report


def with_advantages(experience: Experience, algorithm: Algorithm, ranks: Ranks, rank: int) -> tuple[TrainingBatch, Report]:
    """The rows of this rank, in whole groups, with `advantages` and `returns`, and the statistics of the advantage part; collective.

    Whole rows travel between ranks only if the part needs `all_tokens`.
    """
    report = Report()
    part, weight = algorithm.advantage, algorithm.token_weight
    scorable = experience.scorable if weight is None else experience.scorable & weight.in_statistics(experience)
    everywhere = "all_tokens" in part.needs
    everyone = ranks.gather(replace(experience, scorable=scorable)) if everywhere else []
    if len(everyone) > 1:
        name = type(part).__name__
        warnings.warn(f"{name} needs all_tokens: every rank sends all of its rows to every other one, in each rollout", stacklevel=2)
    seen = Experience.concat_groups(everyone) if everywhere else replace(experience, scorable=scorable, ranks=ranks)
    result = part.compute(seen)
    if not everywhere or rank == 0:
        report.add_all(result.statistics, seen.response_mask, part)
    first = sum(len(other) for other in everyone[:rank])
    rows, length = slice(first, first + len(experience)), experience.input_ids.shape[1]
    returns = None if result.returns is None else result.returns[rows, :length]
    learnt = {name: values[rows, :length] if values.dim() > 1 else values[rows] for name, values in expected(part, result.extras).items()}
    found = {f.name: getattr(experience, f.name) for f in fields(Experience)} | {"extras": experience.extras | learnt}
    return TrainingBatch(**found, advantages=result.advantages[rows, :length], returns=returns), report
