"""The base of most objectives on pairs: a loss of the difference between two implicit rewards."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from lightrl import Likelihood, PairObjective


class MarginObjective(PairObjective):
    """loss = f(reward of the better completion - reward of the worse one)."""

    def loss(self, chosen: Likelihood, rejected: Likelihood) -> Tensor:
        return self.of_margin(self.reward(chosen) - self.reward(rejected))

    @abstractmethod
    def of_margin(self, margin: Tensor) -> Tensor:
        """`[n]` losses of `[n]` differences."""


def positive(name: str, **values: float) -> None:
    """Refuse what must be above 0.

    Raises:
        ValueError: a value is 0, negative or no number.
    """
    for argument, value in values.items():
        if not 0 < value < float("inf"):
            raise ValueError(f"{name} needs {argument} > 0, got {value}")
