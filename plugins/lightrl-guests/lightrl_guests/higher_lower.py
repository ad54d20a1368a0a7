"""A game in TRL's form, as an example: it imports nothing of lightrl."""

from __future__ import annotations

import random
from typing import Any


class HigherLower:
    """Guess a number from 1 to `largest`; a right guess is worth more the earlier it comes."""

    def __init__(self, largest: int = 9, cost: float = 0.2) -> None:
        self.largest, self.cost = largest, cost
        self.reward = 0.0

    def reset(self, **kwargs: Any) -> str:
        """Choose another number."""
        self.number = random.randint(1, self.largest)
        self.guesses, self.reward = 0, 0.0
        return f"Guess a number from 1 to {self.largest}."

    def guess(self, number: int) -> str:
        """Guess the number.

        Args:
            number: The guess.

        Returns:
            `higher`, `lower` or `right`.
        """
        if self.reward:
            raise ValueError("the game is over")
        self.guesses += 1
        if number == self.number:
            self.reward = max(1 - self.cost * (self.guesses - 1), self.cost)
            return "right"
        return "higher" if number < self.number else "lower"

    def get_reward(self) -> float:
        """The reward of the game so far."""
        return self.reward
