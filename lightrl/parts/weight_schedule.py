"""Weights that change while a policy learns."""

from __future__ import annotations

from dataclasses import dataclass

from lightrl.ranges import Count, Weight, refuse_outside


@dataclass(frozen=True)
class LinearWeight:
    """A factor on a reward's weight that moves along a line: start + (end - start) min(1, seen / rollouts), then stays."""

    start: Weight
    """The factor in the first rollout."""
    end: Weight
    """The factor after `rollouts` rollouts."""
    rollouts: Count
    """Rollouts from `start` to `end`; at least 1."""

    def __post_init__(self) -> None:
        refuse_outside(type(self), vars(self))

    def at(self, seen: int) -> float:
        """The factor after this many rollouts."""
        return self.start + (self.end - self.start) * min(1.0, seen / self.rollouts)
