"""Penalties on the length of a completion, and on what it repeats."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge, Gt

from lightrl import BatchReward, Prompt, RowReward

if TYPE_CHECKING:
    from torch import Tensor

    from lightrl import Rollout

# scripts without spaces between words are taken character by character
_ALONE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\u0e00-\u0e7f"
WORD = re.compile(rf"[{_ALONE}]|[^\W{_ALONE}]+")


class Length(BatchReward):
    """Completions lose in proportion to how far their length is from a target.

    R = -long min(1, (|y| - target - tolerance) / target) above the target, -short min(1, (target - tolerance - |y|) / target) below, and
    0 within the tolerance.
    """

    def __init__(
        self,
        target: Annotated[int, Gt(0)],
        tolerance: Annotated[int, Ge(0)] = 0,
        long: Annotated[float, Ge(0)] = 1.0,
        short: Annotated[float, Ge(0)] = 1.0,
        unit: Literal["tokens", "characters"] = "tokens",
        **kwargs: Any,
    ) -> None:
        """
        Args:
            target: the length that costs nothing, in units; above 0.
            tolerance: how far from it still costs nothing, in units; at least 0.
            long: what a completion of twice the target and the tolerance loses; 0: longer is as good.
            short: what an empty completion loses, without a tolerance; 0: shorter is as good.
            unit: `tokens` counts those that were sampled, EOS included; `characters` those of the text.
            **kwargs: weight and the other arguments of every reward.
        """
        super().__init__(**kwargs)
        self.target, self.tolerance, self.long, self.short, self.unit = target, tolerance, long, short, unit

    def score(self, rollout: Rollout) -> Tensor:
        lengths = rollout.response_lengths
        if self.unit == "characters":
            lengths = lengths.new_tensor([len(text) for text in rollout.completions])
        distance = (lengths.double() - self.target) / self.target
        free = self.tolerance / self.target
        return (-self.long * (distance - free).clamp(0, 1) - self.short * (-distance - free).clamp(0, 1)).float()


class SoftOverlong(BatchReward):
    """Soft overlong punishment: completions near the token limit lose up to 1.

    R(y) = 0 if |y| <= max_length - cache, (max_length - cache - |y|) / cache up to max_length, and -1 beyond; |y| counts the
    sampled tokens of all turns, EOS included.

    Source: Yu et al. 2025 (DAPO), arXiv:2503.14476, section 3.4, eq. 13.
    """

    def __init__(self, max_length: int, cache: int, **kwargs: Any) -> None:
        """
        Args:
            max_length: L_max in tokens: from here on the penalty is whole. Usually the engine's `max_new_tokens`.
            cache: L_cache in tokens: how far below it the penalty begins; in (0, max_length].
            **kwargs: weight and the other arguments of every reward.

        Raises:
            ValueError: cache outside its range.
        """
        super().__init__(**kwargs)
        if not 0 < cache <= max_length:
            raise ValueError(f"SoftOverlong needs 0 < cache <= max_length, got cache={cache}, max_length={max_length}")
        self.max_length, self.cache = max_length, cache

    def score(self, rollout: Rollout) -> Tensor:
        over = rollout.response_lengths.double() - (self.max_length - self.cache)
        return -(over / self.cache).clamp(0, 1).float()


class Repetition(RowReward):
    """Completions lose the share of their n-grams that occurred before.

    R = -(1 - distinct n-grams / n-grams), over words without regard to case; 0 for completions of fewer than n + 1 words.

    Source: Yeo et al. 2025 (Demystifying Long Chain-of-Thought Reasoning), arXiv:2502.03373, the n-gram repetition penalty.
    """

    runs = "inline"

    def __init__(self, n: Annotated[int, Ge(1)] = 4, **kwargs: Any) -> None:
        """
        Args:
            n: words of an n-gram; at least 1.
            **kwargs: weight and the other arguments of every reward.
        """
        super().__init__(**kwargs)
        self.n = n

    def score(self, prompt: Prompt, completion: str) -> float:
        """The share of n-grams that are repeats, below 0."""
        words = WORD.findall(completion.lower())
        grams = len(words) - self.n + 1
        if grams < 2:
            return 0.0
        distinct = len({tuple(words[i : i + self.n]) for i in range(grams)})
        return distinct / grams - 1.0
