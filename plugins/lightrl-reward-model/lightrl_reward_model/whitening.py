"""Scores measured against those of all rollouts before."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

TOLERANCE = 1e-6
"""A standard deviation of at most this, relative to the mean, is float noise."""


@dataclass(frozen=True)
class Moments:
    """Mean and population variance of the scores so far, in float64."""

    rows: float = 0.0
    """Scores so far; with a decay, too."""
    mean: float = 0.0
    variance: float = 0.0
    """Their population variance."""

    def joined(self, other: Moments, share: float) -> Moments:
        """Both together, the other one weighing `share` of 1.

        mean = (1 - a) m + a m', var = (1 - a) v + a v' + a (1 - a) (m' - m)^2.

        Source: Chan, Golub & LeVeque 1979, "Updating formulae and a pairwise algorithm for computing sample variances".
        """
        distance = other.mean - self.mean
        variance = (1 - share) * self.variance + share * other.variance + share * (1 - share) * distance**2
        return Moments(self.rows + other.rows, self.mean + share * distance, variance)


@dataclass(frozen=True)
class RunningWhitening:
    """(score - mean) / std over the scores of all rollouts before this one, so that a reward's scale stays the same.

    A rollout is measured by what came before it, and then counted itself, with its rows of all ranks; a score therefore depends
    neither on the rows beside it nor on the number of ranks. Where all scores so far are equal, the mean alone is taken off.
    """

    mean: float = 0.0
    """The mean that is taken off in the first rollout, before which there is nothing."""
    std: float = 1.0
    """The deviation that the first rollout is divided by; above 0."""
    decay: float | None = None
    """The share of their weight that earlier rollouts keep with each new one, in (0, 1); null: every score weighs the same."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.mean) or not 0 < self.std < math.inf or (self.decay is not None and not 0 < self.decay < 1):
            raise ValueError(
                f"RunningWhitening needs a finite mean, std > 0 and decay in (0, 1) or null, got mean={self.mean}, std={self.std}, "
                f"decay={self.decay}"
            )

    def scale(self, so_far: Moments) -> tuple[float, float]:
        """Mean and standard deviation that the next rollout is measured by."""
        if so_far.rows == 0:
            return self.mean, self.std
        std = math.sqrt(so_far.variance)
        return so_far.mean, std if std > TOLERANCE * max(1.0, abs(so_far.mean)) else 1.0

    def whitened(self, scores: Tensor, so_far: Moments) -> Tensor:
        """The scores, of any shape, on that scale."""
        mean, std = self.scale(so_far)
        return (scores - mean) / std

    def after(self, so_far: Moments, rollout: Moments) -> Moments:
        """The moments after a rollout of at least one row."""
        if so_far.rows == 0:
            return rollout
        share = rollout.rows / (so_far.rows + rollout.rows) if self.decay is None else 1 - self.decay
        return so_far.joined(rollout, share)
