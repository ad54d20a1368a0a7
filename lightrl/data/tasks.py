"""Synthetic tasks: prompts with answers that need no file, in characters that every `TinyPolicy` knows."""

from __future__ import annotations

import random
from abc import abstractmethod
from typing import Annotated

from annotated_types import Ge, Le

from lightrl.parts.prompts import PromptSource
from lightrl.ranges import Seed
from lightrl.types import Prompt

MAX_DIGITS = 18
"""Most digits in one prompt; beyond it the number of prompts no longer fits a 64-bit index."""
Digits = Annotated[int, Ge(1), Le(MAX_DIGITS)]
Examples = Annotated[int, Ge(1), Le(500_000)]
"""Each prompt is made, and kept in memory, before the first step."""


class SyntheticTask(PromptSource):
    """Distinct prompts drawn without replacement from all that a task has; the same seed gives the same ones in the same order."""

    def __init__(self, examples: Examples, seed: Seed, possible: int) -> None:
        """
        Args:
            examples: how many prompts; at least 1.
            seed: which of the possible prompts, and in which order.
            possible: how many distinct prompts the task has.

        Raises:
            ValueError: fewer than one prompt, or more than there are.
        """
        if examples > possible:
            raise ValueError(f"{type(self).__name__} needs 1 <= examples <= {possible}, the number of distinct prompts; got {examples}")
        self.examples, self.seed = examples, seed
        self._numbers = random.Random(seed).sample(range(possible), examples)

    @property
    def size(self) -> int:
        return self.examples

    def prompt(self, index: int) -> Prompt:
        return self._example(self._numbers[index])

    @abstractmethod
    def _example(self, number: int) -> Prompt:
        """The prompt with this number among all possible ones."""


class DigitSorting(SyntheticTask):
    """Sort digits: `493027=` is answered by `023479`."""

    def __init__(self, length: Digits = 6, examples: Examples = 20000, seed: Seed = 0) -> None:
        """
        Args:
            length: digits to sort, 1 to 18.
            examples: how many distinct prompts.
            seed: which ones, and in which order; two seeds share prompts.

        Raises:
            ValueError: length outside its range, or more examples than 10 ** length.
        """
        self.length = length
        super().__init__(examples, seed, 10**length)

    def _example(self, number: int) -> Prompt:
        digits = f"{number:0{self.length}d}"
        return Prompt(id=f"sort{self.length}:{digits}", text=f"{digits}=", answer="".join(sorted(digits)))


class Reversal(SyntheticTask):
    """Write digits backwards: `493027=` is answered by `720394`."""

    def __init__(self, length: Digits = 6, examples: Examples = 20000, seed: Seed = 0) -> None:
        """
        Args:
            length: digits to reverse, 1 to 18.
            examples: how many distinct prompts.
            seed: which ones, and in which order; two seeds share prompts.

        Raises:
            ValueError: length outside its range, or more examples than 10 ** length.
        """
        self.length = length
        super().__init__(examples, seed, 10**length)

    def _example(self, number: int) -> Prompt:
        digits = f"{number:0{self.length}d}"
        return Prompt(id=f"reverse{self.length}:{digits}", text=f"{digits}=", answer=digits[::-1])


class Addition(SyntheticTask):
    """Add two numbers: `57+8=` is answered by `65`."""

    def __init__(self, digits: Annotated[int, Ge(1), Le(MAX_DIGITS // 2)] = 3, examples: Examples = 20000, seed: Seed = 0) -> None:
        """
        Args:
            digits: most digits of each number, 1 to 9; both are drawn from 0 to 10 ** digits - 1.
            examples: how many distinct prompts.
            seed: which ones, and in which order; two seeds share prompts.

        Raises:
            ValueError: digits outside its range, or more examples than 10 ** (2 * digits).
        """
        self.digits = digits
        super().__init__(examples, seed, 10 ** (2 * digits))

    def _example(self, number: int) -> Prompt:
        left, right = divmod(number, 10**self.digits)
        return Prompt(id=f"add{self.digits}:{left}+{right}", text=f"{left}+{right}=", answer=str(left + right))
