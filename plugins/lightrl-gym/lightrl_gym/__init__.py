"""Games of Gymnasium and TextArena as environments."""

from typing import Any

from lightrl import hookimpl
from lightrl_gym.blackjack import Blackjack
from lightrl_gym.early_win import EarlyWin
from lightrl_gym.frozen_lake import FrozenLake
from lightrl_gym.taxi import Taxi
from lightrl_gym.text_arena import TextArena

__all__ = ["Blackjack", "EarlyWin", "FrozenLake", "Taxi", "TextArena"]


@hookimpl
def lightrl_environments() -> list[type[Any]]:
    return [Blackjack, FrozenLake, Taxi, TextArena]


@hookimpl
def lightrl_rewards() -> list[type[Any]]:
    return [EarlyWin]
