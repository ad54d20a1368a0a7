"""Reports of parts beside their values: numbers, and the outcome of a reward on a row; free of torch, as is `lightrl.prompt`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Statistic:
    """A named number of a part, per row or per token, that the core reduces over micro-batches and ranks."""

    value: Tensor
    """`[n]` or `[n, L]`; NaN is left out. Per-token values count on response tokens only."""
    reduce: Literal["mean", "sum", "max", "min"] = "mean"
    """The reduction of the values, over rows, tokens, micro-batches, optimizer steps and ranks."""


Statistics = Mapping[str, "Tensor | Statistic"]
"""Statistics by name; a bare tensor is reduced by its mean."""


@dataclass(frozen=True)
class WithStatistics:
    """A part's value together with statistics about it; any part method may return this in place of the bare value."""

    value: Any
    """The value that the contract of the method asks for."""
    statistics: Statistics
    """Numbers to be reduced and logged."""


class Outcome(IntEnum):
    """The outcome of one reward on one row."""

    VALUE = 0
    """It returned a number."""
    ABSTAINED = 1
    """It returned None: it contributes nothing, the row stays while another reward scored it."""
    GATED = 2
    """Its gate was closed: the score is 0."""
    ERROR = 3
    """It raised, or returned NaN or infinity: the row is not scorable."""
    TIMEOUT = 4
    """It did not return in time: the row is not scorable."""
