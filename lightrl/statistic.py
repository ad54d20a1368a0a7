"""Numbers that parts report beside their values; free of torch, as is `lightrl.prompt`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
