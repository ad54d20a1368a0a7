"""Games of Gymnasium and TextArena as environments."""

from lightrl import hookimpl
from lightrl_gym.text_arena import TextArena
from lightrl_gym.toy_text import Blackjack, EarlyWin, FrozenLake, Taxi

__all__ = ["Blackjack", "EarlyWin", "FrozenLake", "Taxi", "TextArena"]


@hookimpl
def lightrl_environments() -> list[type]:
    return [Blackjack, FrozenLake, Taxi, TextArena]


@hookimpl
def lightrl_rewards() -> list[type]:
    return [EarlyWin]
