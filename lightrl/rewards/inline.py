"""Rewards that are called in the training process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lightrl.parts.reward import RowReward
from lightrl.rewards.row_call import Answer, Call, perform


@dataclass(frozen=True)
class Done:
    """Answers that are there already."""

    answers: list[Answer]
    """One per call."""

    def result(self) -> list[Answer]:
        """The answers."""
        return self.answers


class InlineRunner:
    """Makes calls one after another; an exception is caught, but nothing can stop a call that does not return."""

    def __init__(self, reward: RowReward) -> None:
        """
        Args:
            reward: to be called.
        """
        self._reward = reward

    def check(self) -> None:
        """It runs where it stands."""

    def start(self) -> None:
        """Nothing is needed."""

    def submit(self, calls: Sequence[Call]) -> Done:
        """Make the calls."""
        return Done([perform(self._reward, call) for call in calls])

    def close(self) -> None:
        """Nothing was started."""
