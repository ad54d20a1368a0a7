"""The base class of alarms: rules over logged numbers, each with a reason and advice."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from lightrl.alarms.history import History

WINDOW = 5
"""Rollouts over which most alarms average, so that one odd rollout raises none."""


class Alarm(ABC):
    """A fault of a run that shows in its logged numbers."""

    name: ClassVar[str]
    """Its name in the log and in the argument `only` of `Alarms`."""
    why: ClassVar[str]
    """The reason why it matters, in a sentence."""
    advice: ClassVar[str]
    """Advice, in a sentence."""

    def advice_for(self, history: History) -> str:
        """The advice for this run, with the names of the numbers that it logs.

        Args:
            history: as in `seen`.
        """
        return self.advice

    @abstractmethod
    def seen(self, history: History) -> str | None:
        """The fault after the last rollout (or step), with numbers; None if there is none.

        Args:
            history: of the run, its last rollout included.
        """
