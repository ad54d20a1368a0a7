"""Results of a replay: numbers, what was computed before the first step, gradients and pulls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from lightrl.types import TrainingBatch
from lightrl_runs.replay.gradients import Gradients


@dataclass(frozen=True)
class Outcome:
    """One algorithm's replay of one rollout."""

    algorithm: str
    """Name of its class."""
    batch: TrainingBatch
    """The rows with their advantages."""
    numbers: Mapping[str, float]
    """As a run logs them."""
    gradients: Gradients
    """Of the weights; without weights, of the tokens' log-probs."""
    pulls: Tensor
    """`[N, L]`: d loss / d log-prob, over all steps; without weights, over the steps of one pass at the weights before the first."""
    left_out: tuple[str, ...] = ()
    """What could not be computed, a sentence each."""
