"""The rewards that an environment gives, as one reward beside the others."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from lightrl.ops.turns import turn_ends
from lightrl.parts.environment import Environment
from lightrl.parts.reward import BatchReward, Reward
from lightrl.types import Rollout

NAME = "environment"
"""The name under which they are logged."""


class EnvironmentReward(BatchReward):
    """Puts the reward of each turn on its last token.

    An episode whose environment gave no reward at all, and did not fail, has 0 on the last token of its last turn: it was cut off before
    it earned something.
    """

    def score(self, rollout: Rollout) -> Tensor:
        """`[N, L]`: the reward of a turn on its last token, NaN elsewhere."""
        scores = torch.full(rollout.response_mask.shape, math.nan, dtype=torch.float32, device=rollout.response_mask.device)
        ends = turn_ends(rollout.response_mask)
        for row, episode in enumerate(rollout.episodes):
            given = {k: reward for k, reward in enumerate(episode.rewards) if reward is not None}
            if places := ends[row].nonzero()[:, 0].tolist():
                for turn, reward in (given or {-1: 0.0}).items():
                    scores[row, places[turn]] = reward
        return scores


def with_environment(rewards: Mapping[str, Reward], environment: Environment) -> dict[str, Reward]:
    """The rewards of a config, and that of its environment if it gives any; a ValueError if another one has its name."""
    if not environment.gives_rewards:
        return dict(rewards)
    if NAME in rewards:
        raise ValueError(
            f"model.rewards.{NAME} has the name of the rewards that {type(environment).__name__} gives: call it something else"
        )
    return {**rewards, NAME: EnvironmentReward(environment.weight)}
