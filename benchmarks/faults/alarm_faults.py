"""The faults that benchmarks/faults/alarms.py plants in runs that would go well without them."""

from __future__ import annotations

import copy
import time
from typing import Any

from torch import Tensor

from lightrl import DecoupledClip, PolicyWeights, Surrogate, TransformersEngine
from lightrl.policy.weights import TrainerWeights


def constant(completion: str) -> float:
    """Sees no difference."""
    return 1.0


def wrong(completion: str, answer: str) -> float:
    """The sign of the reward is turned over."""
    return float(completion.strip() != answer)


def short(completion: str) -> float:
    """Length is all that counts."""
    return -float(len(completion))


def close(completion: str, answer: str) -> float:
    """The share of digits in their place."""
    return sum(a == b for a, b in zip(completion, answer, strict=False)) / len(answer)


def failing(completion: str, answer: str) -> float:
    """Chokes on every third completion."""
    if sum(map(ord, completion)) % 3 == 0:
        raise ValueError("cannot read this")
    return float(completion.strip() == answer)


class StaleEngine(TransformersEngine):
    """Keeps the weights that it was given first."""

    def update_weights(self, weights: PolicyWeights, version: int) -> None:
        """Take them once."""
        if not hasattr(self, "_first"):
            self._first = TrainerWeights(copy.deepcopy(weights.policy))
        super().update_weights(self._first, version)


class SpikingClip(DecoupledClip):
    """Multiplies the loss by a hundred from some call on."""

    def __init__(self, calls: int = 15, **kwargs: Any) -> None:
        """
        Args:
            calls: after which it happens.
            **kwargs: of `DecoupledClip`.
        """
        super().__init__(**kwargs)
        self.calls = calls
        self._seen = 0

    def surrogate(self, log_ratio: Tensor, advantages: Tensor, old_logprobs: Tensor, mask: Tensor) -> Surrogate:
        """See `ClipScheme.surrogate`."""
        self._seen += 1
        factor = 100.0 if self._seen > self.calls else 1.0
        return super().surrogate(log_ratio, factor * advantages, old_logprobs, mask)


def long(completion: str) -> float:
    """Every letter counts, whatever it says."""
    return 0.1 * len(completion)


def slow(completion: str, answer: str) -> float:
    """Takes a hundredth of a second for each completion."""
    time.sleep(0.01)
    return float(completion.strip() == answer)
