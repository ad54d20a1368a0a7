"""The base class of alarms, rules over logged numbers with a reason and advice, and the history of these numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

BEGINNING = 5
"""Rollouts that later ones are compared with."""
LATEST = 50
"""Rollouts that are remembered."""
VALIDATIONS = 10
"""Validations that are remembered."""

TRAINING = "reward"
"""Name, among the numbers of a validation, of the mean training reward of the rollouts before it; absent before the first rollouts."""

Unit = Literal["rollout", "step"]
"""The unit of the logged numbers: a run that learns from given completions logs each optimizer step."""

Numbers = dict[str, float]


class History:
    """Logged numbers of the first and the last rollouts (or steps), and of the last validations."""

    def __init__(self, unit: Unit = "rollout") -> None:
        self.unit: Unit = unit
        self.count = 0
        self.beginning: list[Numbers] = []
        self.latest: deque[Numbers] = deque(maxlen=LATEST)
        self.validations: deque[Numbers] = deque(maxlen=VALIDATIONS)

    def add(self, numbers: Mapping[str, float]) -> None:
        """Take the numbers of one more rollout."""
        self.count += 1
        if len(self.beginning) < BEGINNING:
            self.beginning.append(dict(numbers))
        self.latest.append(dict(numbers))

    def add_validation(self, numbers: Mapping[str, float]) -> None:
        """Take the scores of a validation, beside the training reward of the rollouts just before it."""
        reward = self.mean("reward", BEGINNING)
        self.validations.append({**numbers, **({} if reward is None else {TRAINING: reward})})

    def now(self, name: str) -> float | None:
        """A number of the last rollout, if it has it."""
        return self.latest[-1].get(name) if self.latest else None

    def mean(self, name: str, rollouts: int) -> float | None:
        """Mean of a number over the last so many rollouts; None if there are fewer, or one lacks it."""
        return _mean(name, list(self.latest)[-rollouts:], rollouts)

    def mean_at_start(self, name: str) -> float | None:
        """Mean of a number over the first `BEGINNING` rollouts; None before they are over, or if one lacks it."""
        return _mean(name, self.beginning, BEGINNING)

    def state_dict(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return {"count": self.count, "beginning": self.beginning, "latest": list(self.latest), "validations": list(self.validations)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.count, self.beginning = state["count"], list(state["beginning"])
        self.latest = deque(state["latest"], maxlen=LATEST)
        self.validations = deque(state["validations"], maxlen=VALIDATIONS)


def _mean(name: str, chosen: list[Numbers], wanted: int) -> float | None:
    values = [numbers[name] for numbers in chosen if name in numbers]
    return sum(values) / wanted if values and len(values) == wanted else None


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
        """The advice for this run, with the names of the numbers that it logs."""
        return self.advice

    @abstractmethod
    def seen(self, history: History) -> str | None:
        """The fault after the last rollout (or step) of the history, with numbers; None if there is none."""
