"""The tasks of reasoning-gym as prompts and rewards."""

from lightrl import hookimpl
from lightrl_reasoning_gym.prompts import ReasoningGym
from lightrl_reasoning_gym.score import ReasoningGymScore

__all__ = ["ReasoningGym", "ReasoningGymScore"]


@hookimpl
def lightrl_prompt_sources() -> list[type]:
    return [ReasoningGym]


@hookimpl
def lightrl_rewards() -> list[type]:
    return [ReasoningGymScore]
