"""Communication between the processes of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

from torch import Tensor

T = TypeVar("T")


class Ranks(Protocol):
    """All processes of a run; every method is collective: each process calls it equally often, and in the same order."""

    def gather(self, value: T) -> list[T]:
        """The values of all ranks, in the order of ranks."""

    def total(self, values: Tensor) -> Tensor:
        """Sums over ranks of a vector of numbers that every rank gives."""


@dataclass(frozen=True)
class OneRank:
    """A run of one process."""

    def gather(self, value: T) -> list[T]:
        """A list of the value."""
        return [value]

    def total(self, values: Tensor) -> Tensor:
        """The values as they are."""
        return values


ALONE = OneRank()
"""The ranks of rows that no other process has a share of."""
