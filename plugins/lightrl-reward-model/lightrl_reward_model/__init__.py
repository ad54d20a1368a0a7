"""A reward model of Hugging Face, a sequence classifier, as reward."""

from lightrl import hookimpl
from lightrl_reward_model.reward_model import RewardModel
from lightrl_reward_model.whitening import RunningWhitening

__all__ = ["RewardModel", "RunningWhitening"]


@hookimpl
def lightrl_rewards() -> list[type]:
    return [RewardModel]
