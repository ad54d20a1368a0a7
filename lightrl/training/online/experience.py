"""From scored rollouts to experience: weights, rewards on tokens, KL in the reward, advantages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from lightrl.algorithms.algorithm import Algorithm
from lightrl.ops.masked import row_sum
from lightrl.parts.base import unpack
from lightrl.training.statistics import StatisticsLedger
from lightrl.types import Experience, ScoredRollout


def experience_of(
    scored: ScoredRollout,
    token_rewards: Tensor,
    step_ends: Tensor,
    algorithm: Algorithm,
    old_logprobs: Tensor,
    ref_logprobs: Tensor | None,
    values: Tensor | None,
    ledger: StatisticsLedger,
) -> Experience:
    """Everything but the advantages, in the order of the design: shaping, KL in the reward, loss masks.

    Args:
        scored: rows of this rank.
        token_rewards: `[N, L]`, weighted, on the tokens that earned them.
        step_ends: `[N, L]` bool, where a reward was given.
        algorithm: whose KL and token weight apply.
        old_logprobs: `[N, L]`.
        ref_logprobs: `[N, L]`, or None.
        values: `[N, L]`, or None.
        ledger: receives the statistics.
    """
    mask = scored.response_mask
    if algorithm.shaping is not None:
        token_rewards, statistics = unpack(algorithm.shaping.rewards(scored, token_rewards))
        ledger.add_all(statistics, mask, algorithm.shaping)
    kl = algorithm.kl
    if kl is not None and kl.reward_coefficient > 0:
        assert ref_logprobs is not None
        penalty, statistics = unpack(kl.penalty(old_logprobs, ref_logprobs, torch.zeros_like(old_logprobs)))
        penalty = torch.where(mask, penalty, 0.0)
        token_rewards = token_rewards - kl.reward_coefficient * penalty
        ledger.add("kl_in_reward", penalty, mask)
        ledger.add_all(statistics, mask, kl)
    experience = Experience(
        **{f.name: getattr(scored, f.name) for f in fields(ScoredRollout)},
        token_rewards=token_rewards,
        step_ends=step_ends,
        rewards=row_sum(token_rewards, mask),
        token_weight=(mask & scored.scorable[:, None]).to(token_rewards.dtype) * _row_weight(scored),
        old_logprobs=old_logprobs,
        advantages=torch.zeros_like(token_rewards),
        ref_logprobs=ref_logprobs,
        values=values,
    )
    if algorithm.token_weight is not None:
        weights, statistics = unpack(algorithm.token_weight.weights(experience))
        ledger.add_all(statistics, mask, algorithm.token_weight)
        experience.token_weight = torch.where(experience.token_weight > 0, experience.token_weight * weights, 0.0)
    return experience


def add_advantages(
    experience: Experience, algorithm: Algorithm, gather: Callable[[Any], list[Any]], rank: int, ledger: StatisticsLedger
) -> None:
    """Fill `advantages` and `returns` in place, computed from the rows of all ranks.

    Args:
        experience: rows of this rank.
        algorithm: whose advantage part computes.
        gather: gives what every rank passed to it, in the order of ranks.
        rank: of this process.
        ledger: receives the part's statistics, on the first rank only, since they are of all ranks.
    """
    ranks: list[Experience] = gather(experience)
    everyone = ranks[0] if len(ranks) == 1 else Experience.concat(_renumbered(ranks))
    if algorithm.token_weight is not None:
        everyone = replace(everyone, scorable=everyone.scorable & algorithm.token_weight.in_statistics(everyone))
    result = algorithm.advantage.compute(everyone)
    rows, length = _own_rows(ranks, rank), experience.input_ids.shape[1]
    experience.advantages = result.advantages[rows, :length]
    experience.returns = None if result.returns is None else result.returns[rows, :length]
    if rank == 0:
        ledger.add_all(result.statistics, everyone.response_mask, algorithm.advantage)


def _row_weight(scored: ScoredRollout) -> Tensor | float:
    return 1.0 if scored.row_weight is None else scored.row_weight[:, None]


def _own_rows(ranks: list[Experience], rank: int) -> slice:
    start = sum(len(other) for other in ranks[:rank])
    return slice(start, start + len(ranks[rank]))


def _renumbered(ranks: list[Experience]) -> list[Experience]:
    first, renumbered = 0, []
    for other in ranks:
        copy = other.select(range(len(other)))
        copy.group = copy.group + first
        first = int(copy.group.max()) + 1 if len(copy) else first
        renumbered.append(copy)
    return renumbered
