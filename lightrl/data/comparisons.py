"""A synthetic task for learning from comparisons: a right answer and a plausible wrong one."""

from __future__ import annotations

import random
from dataclasses import replace

from lightrl.data.tasks import Digits, DigitSorting, Examples
from lightrl.ranges import Seed, Share
from lightrl.types import Prompt


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
