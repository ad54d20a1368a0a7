"""Rewards for answers that can be checked."""

from typing import Any

from lightrl import hookimpl
from lightrl_math.boxed import Boxed
from lightrl_math.choice import MultipleChoice
from lightrl_math.math_answer import MathAnswer
from lightrl_math.number import FinalNumber

__all__ = ["Boxed", "FinalNumber", "MathAnswer", "MultipleChoice"]


@hookimpl
def lightrl_rewards() -> list[type[Any]]:
    return [Boxed, FinalNumber, MathAnswer, MultipleChoice]
