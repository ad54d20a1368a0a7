"""The online algorithms of benchmarks/learning/chat_models.py, each with what a short run on one core needs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from lightrl_dapo import DAPO, DynamicSampler
from lightrl_grpo import GRPO, DrGRPO
from lightrl_gspo import GSPO
from lightrl_ppo import PPO, RLOO, ReinforcePlusPlus, ReinforcePlusPlusBaseline
from lightrl_zoo import CISPO, GMPO, SAPO

from lightrl import ConstantLength, GroupSampler, ValueHead
from lightrl.algorithms.algorithm import Algorithm

GROUP = 8
"""Completions of a prompt."""
LEARNING_RATE = 2e-5
OF_THE_VALUE_HEAD = 1e-3
"""The learning rate of PPO's critic, which begins at random."""

ALGORITHMS: dict[str, Callable[[int], Algorithm]] = {
    "grpo": lambda longest: GRPO(kl=None, minibatches=2),
    "ppo": lambda longest: PPO(
        kl=None, sampler=GroupSampler(group_size=GROUP), critic=ValueHead(learning_rate=OF_THE_VALUE_HEAD), epochs=2, minibatches=1
    ),
    "rloo": lambda longest: RLOO(kl=None, sampler=GroupSampler(group_size=GROUP)),
    "dapo": lambda longest: DAPO(sampler=DynamicSampler(group_size=GROUP, max_rounds=4, exhausted="partial"), minibatches=2),
    "gspo": lambda longest: GSPO(minibatches=2),
    "reinforce_plus_plus": lambda longest: ReinforcePlusPlus(kl=None, sampler=GroupSampler(group_size=GROUP), minibatches=2),
    "cispo": lambda longest: CISPO(minibatches=2),
    "dr_grpo": lambda longest: DrGRPO(aggregation=ConstantLength(length=longest), minibatches=2),
    "sapo": lambda longest: SAPO(minibatches=2),
    "gmpo": lambda longest: GMPO(minibatches=2),
    "reinforce_plus_plus_baseline": lambda longest: ReinforcePlusPlusBaseline(kl=None, minibatches=2),
}
"""By name; each is given the most tokens of an episode."""

optimizer = partial(torch.optim.AdamW, lr=LEARNING_RATE, weight_decay=0.0)
"""Of every online run."""
