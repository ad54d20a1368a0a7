"""Policy gradients on rewards that are compared with a critic, with a baseline, or with each other."""

from lightrl import hookimpl
from lightrl_ppo.ppo import PPO, DualClip, PPOPenalty, TargetKL
from lightrl_ppo.reinforce import (
    REINFORCE,
    RLOO,
    BatchCentered,
    ClippedRLOO,
    CompletionRatio,
    GreedyBaselineSampler,
    GreedyCentered,
    MovingAverageCentered,
    ReMax,
)
from lightrl_ppo.reinforce_plus_plus import ReinforcePlusPlus, ReinforcePlusPlusBaseline, WhitenedReturn

__all__ = [
    "PPO",
    "REINFORCE",
    "RLOO",
    "BatchCentered",
    "ClippedRLOO",
    "CompletionRatio",
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
def lightrl_algorithms() -> list[type]:
    return [PPO, PPOPenalty, REINFORCE, RLOO, ClippedRLOO, ReMax, ReinforcePlusPlus, ReinforcePlusPlusBaseline]


@hookimpl
def lightrl_advantages() -> list[type]:
    return [BatchCentered, GreedyCentered, MovingAverageCentered, WhitenedReturn]


@hookimpl
def lightrl_clip_schemes() -> list[type]:
    return [DualClip]


@hookimpl
def lightrl_ratios() -> list[type]:
    return [CompletionRatio]


@hookimpl
def lightrl_samplers() -> list[type]:
    return [GreedyBaselineSampler]


@hookimpl
def lightrl_kl_controllers() -> list[type]:
    return [TargetKL]
