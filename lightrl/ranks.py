"""Communication between the processes of a run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
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


def local_rank() -> int:
    """The rank of this process among those of its machine."""
    # Lightning and torchrun set the first one, srun the second one
    return int(os.environ.get("LOCAL_RANK") or os.environ.get("SLURM_LOCALID") or 0)
