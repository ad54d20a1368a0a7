"""One rule for everybody who asks whether an engine has the trainer's weights: what the log-probs of the same tokens say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

FAR = 0.2
"""A token is far where the ratio of its two probabilities deviates from 1 by more: what an ordinary clip lets pass."""
STILL = 0.1
"""An engine whose log-probs moved by less than this share of the trainer's own movement has not taken the new weights."""
ROUNDING = 1e-6
"""Mean movement of a log-prob, in nats, below which nothing can be said."""


@dataclass(frozen=True)
class Limits:
    """Limits on the differences between two computations of the same log-probs."""

    mean: float
    """Mean absolute difference of a token's log-prob, in nats."""
    far: float
    """Share of the tokens whose ratio deviates from 1 by more than 0.2, in [0, 1]."""

    @classmethod
    def of(cls, dtype: torch.dtype, mean: float | None = None) -> Limits:
        """The limits of a format.

        Args:
            dtype: that the trainer's layers compute in.
            mean: in place of its own limit on the mean; the share then has none of its own.
        """
        if mean is not None:
            return cls(mean, 1.0)
        bits = MULTIPLIED[torch.get_float32_matmul_precision()] if dtype == torch.float32 else dtype
        return LIMITS.get(bits, LIMITS[torch.float32])


MULTIPLIED = {"highest": torch.float32, "high": torch.float16, "medium": torch.bfloat16}
"""The format with as many bits as torch may multiply float32 matrices with, by its `float32_matmul_precision`."""
LIMITS = {
    torch.float64: Limits(1e-4, 0.01),
    torch.float32: Limits(1e-4, 0.01),
    torch.float16: Limits(0.02, 0.02),
    torch.bfloat16: Limits(0.1, 0.15),
}
"""Measured on real logits, but for float16, whose steps are an eighth of those of bfloat16: see docs/agreement.md."""


@dataclass(frozen=True)
class Answer:
    """Tokens that an engine sampled for a request, with the log-probs of engine and trainer."""

    tokens: Sequence[int]
    """The sampled ids."""
    engine: Sequence[float]
    """Their log-probs from the engine."""
    trainer: Sequence[float]
    """Their log-probs from the trainer's own forward."""


@dataclass(frozen=True)
class Agreement:
    """How far the log-probs of the same tokens are apart."""

    tokens: float
    """Their number."""
    mean: float
    """Mean absolute difference of a token's log-prob, in nats."""
    far: float
    """Share of the tokens whose ratio deviates from 1 by more than `FAR`."""
    largest: float
    """Largest deviation of a ratio from 1; to be shown, never to decide by."""

    @classmethod
    def of(cls, answers: Sequence[Answer]) -> Agreement:
        """The agreement over all tokens of some answers. `answers`: any number; without a token everything agrees."""
        differences = _flat([answer.trainer for answer in answers]) - _flat([answer.engine for answer in answers])
        if not len(differences):
            return cls(0, 0.0, 0.0, 0.0)
        deviation = (differences.exp() - 1).abs()
        # what is not a number is far
        far = ~(deviation <= FAR)
        return cls(len(differences), float(differences.abs().mean()), float(far.double().mean()), float(deviation.max()))

    def within(self, limits: Limits) -> bool:
        """Whether rounding explains the differences; what is not a number is within no limit.

        Args:
            limits: of the format that the trainer computes in.
        """
        return self.mean <= limits.mean and self.far <= limits.far

    def against(self, limits: Limits) -> str:
        """The numbers beside their limits, for messages."""
        return (
            f"over {self.tokens:g} tokens log-probs differ by {self.mean:.3g} on average (limit {limits.mean:g}), {self.far:.1%} of the "
            f"ratios deviate from 1 by more than {FAR:g} (limit {limits.far:.0%}), and the largest by {self.largest:.3g}"
        )


def stood_still(before: Sequence[Answer], now: Sequence[Answer]) -> bool:
    """Whether an engine answers with the weights from before an update: its log-probs stayed, and the trainer's moved.

    sum |engine now - engine before| < `STILL` sum |trainer now - trainer before|, over requests that got the same tokens. Rounding does
    not hide it, since an engine with the same weights rounds the same request alike, and any change of the weights changes the rounding.

    Args:
        before: answers with the weights from before the update.
        now: answers to the same requests behind it.
    """
    same = [(one, other) for one, other in zip(before, now, strict=True) if list(one.tokens) == list(other.tokens)]
    if not any(len(one.tokens) for one, _ in same):
        return False
    engine, trainer = (
        float((_flat([getattr(other, side) for _, other in same]) - _flat([getattr(one, side) for one, _ in same])).abs().mean())
        for side in ("engine", "trainer")
    )
    return trainer > ROUNDING and engine < STILL * trainer


def _flat(rows: Sequence[Sequence[float]]) -> torch.Tensor:
    return torch.tensor([value for row in rows for value in row], dtype=torch.float64)
