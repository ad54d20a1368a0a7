"""Synthetic tasks: prompts with answers that need no file, in characters that every `TinyPolicy` knows."""

from __future__ import annotations

import random
from abc import abstractmethod
from dataclasses import replace
from typing import Annotated

from annotated_types import Ge, Le

from lightrl.parts.prompts import PromptSource
from lightrl.ranges import Seed, Share
from lightrl.types import JSON, Prompt

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


class DigitTask(SyntheticTask):
    """A task whose prompts are one row of digits and `=`."""

    def __init__(self, length: Digits = 6, examples: Examples = 20000, seed: Seed = 0) -> None:
        """
        Args:
            length: digits of a prompt, 1 to 18.
            examples: how many distinct prompts.
            seed: which ones, and in which order; two seeds share prompts.

        Raises:
            ValueError: length outside its range, or more examples than 10 ** length.
        """
        self.length = length
        super().__init__(examples, seed, 10**length)


class DigitSorting(DigitTask):
    """Sort digits: `493027=` is answered by `023479`."""

    def _example(self, number: int) -> Prompt:
        digits = f"{number:0{self.length}d}"
        return Prompt(id=f"sort{self.length}:{digits}", text=f"{digits}=", answer="".join(sorted(digits)))


class Reversal(DigitTask):
    """Write digits backwards: `493027=` is answered by `720394`."""

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


class SortedPairs(DigitSorting):
    """Sort digits, with a better and a worse answer: `493027=` is answered rather by `023479` than by `023749`.

    The columns are `chosen`, which is right, and `rejected`, which has one or two mistakes: digits that are exchanged, replaced, left out
    or written twice.
    """

    def __init__(self, length: Digits = 6, examples: Examples = 20000, seed: Seed = 0, ordered: Share = 0.0) -> None:
        """
        Args:
            length: digits to sort, 1 to 18.
            examples: how many distinct prompts.
            seed: which ones, and in which order; two seeds share prompts.
            ordered: share of the worse answers that are in order and have wrong digits, as those of a policy that has learnt the form
                of an answer; in [0, 1].

        Raises:
            ValueError: length or ordered outside its range, or more examples than 10 ** length.
        """
        super().__init__(length, examples, seed)
        self.ordered = ordered

    def _example(self, number: int) -> Prompt:
        prompt = super()._example(number)
        right, ordered = str(prompt.answer), random.Random(f"{self.seed}:{number}:ordered").random() < self.ordered
        return replace(prompt, columns={"chosen": right, "rejected": _wrong(right, random.Random(f"{self.seed}:{number}"), ordered)})


def _wrong(right: str, chance: random.Random, ordered: bool) -> str:
    answer = right
    while answer == right:
        for _ in range(chance.randint(1, 2)):
            answer = _mistaken(answer, chance)
        answer = "".join(sorted(answer)) if ordered else answer
    return answer


def _mistaken(answer: str, chance: random.Random) -> str:
    digits, at, other = list(answer), chance.randrange(len(answer)), chance.randrange(len(answer))
    kind = chance.choice(("exchange", "replace", "leave out", "repeat"))
    if kind == "exchange":
        digits[at], digits[other] = digits[other], digits[at]
    elif kind == "leave out" and len(digits) > 1:
        del digits[at]
    elif kind == "repeat":
        digits.insert(at, digits[at])
    else:
        digits[at] = str(chance.randrange(10))
    return "".join(digits)


class EpisodeSeeds(PromptSource):
    """Empty prompts with the ids 0, 1, ...: each of them begins another episode, since an environment's seed follows from the id."""

    def __init__(self, size: Annotated[int, Ge(1), Le(10_000_000)] = 100_000, columns: dict[str, JSON] | None = None) -> None:
        """
        Args:
            size: how many of them; at least 1.
            columns: columns that every prompt has, by name; null: none.

        Raises:
            ValueError: fewer than one.
        """
        self._size, self.columns = size, dict(columns or {})

    @property
    def size(self) -> int:
        return self._size

    def prompt(self, index: int) -> Prompt:
        return Prompt(id=str(index), text="", columns=self.columns)
