"""Weights that change while a policy learns."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class LinearWeight:
    """A factor on a reward's weight that moves along a line: start + (end - start) min(1, seen / rollouts), then stays."""

    start: float
    """The factor in the first rollout."""
    end: float
    """The factor after `rollouts` rollouts."""
    rollouts: int
    """Rollouts from `start` to `end`; at least 1."""

    def __post_init__(self) -> None:
        if self.rollouts < 1 or not math.isfinite(self.start) or not math.isfinite(self.end):
            raise ValueError(f"LinearWeight needs finite start and end and rollouts >= 1, got {self.start}, {self.end} and {self.rollouts}")

    def at(self, seen: int) -> float:
        """The factor after this many rollouts."""
        return self.start + (self.end - self.start) * min(1.0, seen / self.rollouts)
