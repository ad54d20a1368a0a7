"""Rewards that are asked only where the score of another reward, their gate, is high enough."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from lightrl.ops.moments import row_values
from lightrl.parts.reward import Reward
from lightrl.rewards.reward_scores import RewardScores, failures_of
from lightrl.types import Outcome, Rollout


def stages(rewards: Mapping[str, Reward]) -> list[list[str]]:
    """The names in the order in which they can be asked: a gate stands in an earlier stage than the rewards behind it.

    Raises:
        ValueError: a gate is no reward of this set, or gates open each other in a circle.
    """
    for name, reward in rewards.items():
        if reward.gate is not None and reward.gate not in rewards:
            raise ValueError(f"reward {name!r} has the gate {reward.gate!r}, which is no reward here. There are: {', '.join(rewards)}")
    order: list[list[str]] = []
    settled: set[str] = set()
    while len(settled) < len(rewards):
        stage = [n for n, r in rewards.items() if n not in settled and (r.gate is None or r.gate in settled)]
        if not stage:
            circle = ", ".join(f"{n!r} (gate {r.gate!r})" for n, r in rewards.items() if n not in settled)
            raise ValueError(f"these rewards wait for each other and would never be asked: {circle}. Take one gate away")
        order.append(stage)
        settled.update(stage)
    return order


def behind(reward: Reward, gate: RewardScores, rollout: Rollout) -> tuple[Tensor, RewardScores]:
    """The rows that a reward is asked about, and the scores that take its place in the others.

    Args:
        gate: what the reward of that name said.

    Returns:
        Indices of the rows where the gate is open, and scores of all rows, which mean something where it is not.
    """
    raw = row_values(gate.part)
    opens = torch.where(raw.isnan(), -torch.inf, raw) > reward.gate_above
    abstained = gate.outcome == int(Outcome.ABSTAINED)
    failed = (gate.outcome == int(Outcome.ERROR)) | (gate.outcome == int(Outcome.TIMEOUT))
    outcome = torch.full_like(gate.outcome, int(Outcome.GATED))
    outcome = outcome.masked_fill(abstained, int(Outcome.ABSTAINED)).masked_fill(failed, int(Outcome.ERROR))
    part = torch.zeros_like(raw).masked_fill(abstained | failed, torch.nan)
    failures = failures_of(outcome, rollout, [f"its gate {reward.gate!r} failed"] * len(rollout))
    return opens.nonzero()[:, 0], RewardScores(part, outcome, failures)
