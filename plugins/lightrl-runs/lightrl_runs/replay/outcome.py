"""The results of a replay: numbers, what was computed before the first step, and gradients of weights and tokens."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from lightrl.types import TrainingBatch


class Gradients:
    """The gradient of the first step, and that of all steps added up."""

    def __init__(self) -> None:
        self.first: Tensor | None = None
        self.total: Tensor | None = None

    def add(self, vector: Tensor) -> None:
        """Add the gradient of a step, one vector on the CPU."""
        self.first = vector.clone() if self.first is None else self.first
        self.total = vector.clone() if self.total is None else self.total + vector


class Pulls:
    """The gradient of the loss with respect to the log-prob of each sampled token, over all steps: how hard each was pulled.

    Below 0 the token was made likelier, above 0 less likely.
    """

    def __init__(self, rows: int, width: int) -> None:
        self.values = torch.zeros(rows, width, dtype=torch.float64)
        """`[N, L]`."""

    def add(self, rows: Tensor, mask: Tensor, gradient: Tensor) -> None:
        """Add the gradient `[n, l]` of a micro-batch: the numbers of its rows in the rollout `[n]`, and the tokens with a loss `[n, l]`."""
        part = torch.where(mask, gradient.detach(), 0.0).double().cpu()
        self.values[:, : part.shape[1]].index_add_(0, rows.cpu(), part)


def cosine(one: Tensor, other: Tensor) -> float:
    """The cosine of the angle between two vectors, NaN if one has no length."""
    a, b = one.double().flatten(), other.double().flatten()
    return float(a @ b / ((a @ a) * (b @ b)).sqrt())


@dataclass(frozen=True)
class Outcome:
    """One algorithm's replay of one rollout."""

    algorithm: str
    batch: TrainingBatch
    numbers: Mapping[str, float]
    gradients: Gradients
    """Of the weights; without weights, of the tokens' log-probs."""
    pulls: Tensor
    """`[N, L]`: d loss / d log-prob, over all steps; without weights, over the steps of one pass at the weights before the first."""
    left_out: tuple[str, ...] = ()
    """What could not be computed, a sentence each."""
