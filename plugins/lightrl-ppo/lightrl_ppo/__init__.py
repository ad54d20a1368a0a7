"""Policy gradients on rewards that are compared with a critic, with a baseline, or with each other."""

from typing import Any

from lightrl import hookimpl
from lightrl_ppo.baselines import BatchCentered, MovingAverageCentered
from lightrl_ppo.dual_clip import DualClip
from lightrl_ppo.ppo import PPO, PPOPenalty
from lightrl_ppo.reinforce import REINFORCE
from lightrl_ppo.reinforce_plus_plus import ReinforcePlusPlus, ReinforcePlusPlusBaseline
from lightrl_ppo.remax import GreedyBaselineSampler, GreedyCentered, ReMax
from lightrl_ppo.rloo import RLOO
from lightrl_ppo.target_kl import TargetKL
from lightrl_ppo.whitened import WhitenedReturn

__all__ = [
    "PPO",
    "REINFORCE",
    "RLOO",
    "BatchCentered",
    "DualClip",
    "GreedyBaselineSampler",
    "GreedyCentered",
    "MovingAverageCentered",
    "PPOPenalty",
    "ReMax",
    "ReinforcePlusPlus",
    "ReinforcePlusPlusBaseline",
    "TargetKL",
    "WhitenedReturn",
]


@hookimpl
def lightrl_algorithms() -> list[type[Any]]:
    return [PPO, PPOPenalty, REINFORCE, RLOO, ReMax, ReinforcePlusPlus, ReinforcePlusPlusBaseline]


@hookimpl
def lightrl_advantages() -> list[type[Any]]:
    return [BatchCentered, GreedyCentered, MovingAverageCentered, WhitenedReturn]


@hookimpl
def lightrl_clip_schemes() -> list[type[Any]]:
    return [DualClip]


@hookimpl
def lightrl_samplers() -> list[type[Any]]:
    return [GreedyBaselineSampler]


@hookimpl
def lightrl_kl_controllers() -> list[type[Any]]:
    return [TargetKL]
