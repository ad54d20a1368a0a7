"""What an alarm is: a rule over logged numbers that says what it saw, why that matters and what to try."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from lightrl.alarms.history import History

WINDOW = 5
"""Rollouts over which most alarms average, so that one odd rollout raises none."""


class Alarm(ABC):
    """One thing that goes wrong in a run and shows in its numbers."""

    name: ClassVar[str]
    """Under which it is logged and can be switched off."""
    why: ClassVar[str]
    """Why it matters, in a sentence."""
    advice: ClassVar[str]
    """What to try, in a sentence."""

    def advice_for(self, history: History) -> str:
        """`advice`, in the words of this run and with the names of numbers that it has.

        Args:
            history: as in `seen`.
        """
        return self.advice

    @abstractmethod
    def seen(self, history: History) -> str | None:
        """What is wrong after the last rollout (or step), with numbers; None: nothing.

        Args:
            history: of the run, its last rollout included.
        """
