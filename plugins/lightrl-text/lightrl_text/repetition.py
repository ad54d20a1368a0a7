"""A penalty on completions that say the same again and again."""

import re
from typing import Any

from lightrl import Prompt, RowReward

# scripts without spaces between words are taken character by character
_ALONE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\u0e00-\u0e7f"
WORD = re.compile(rf"[{_ALONE}]|[^\W{_ALONE}]+")


class Repetition(RowReward):
    """Completions lose the share of their n-grams that occurred before.

    R = -(1 - distinct n-grams / n-grams), over words without regard to case; 0 for completions of fewer than n + 1 words.

    Source: Yeo et al. 2025 (Demystifying Long Chain-of-Thought Reasoning), arXiv:2502.03373, the n-gram repetition penalty.
    """

    runs = "inline"

    def __init__(self, n: int = 4, **kwargs: Any) -> None:
        """
        Args:
            n: words of an n-gram; at least 1.
            **kwargs: weight and the other arguments of every reward.

        Raises:
            ValueError: n is below 1.
        """
        super().__init__(**kwargs)
        if n < 1:
            raise ValueError(f"Repetition needs n >= 1, got {n}")
        self.n = n

    def score(self, prompt: Prompt, completion: str) -> float:
        """The share of n-grams that are repeats, below 0."""
        words = WORD.findall(completion.lower())
        grams = len(words) - self.n + 1
        if grams < 2:
            return 0.0
        distinct = len({tuple(words[i : i + self.n]) for i in range(grams)})
        return distinct / grams - 1.0
