"""Rewards for answers that can be checked."""

from typing import Any

from lightrl import hookimpl
from lightrl_math.exact import ExactMatch
from lightrl_math.number import FinalNumber


@hookimpl
def lightrl_rewards() -> list[type[Any]]:
    return [ExactMatch, FinalNumber]
