"""Sums over ranks for work that goes on beside the trainer's."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


class SideGroup:
    """A process group of its own, since the ranks may reach a call here and one of the trainer's in any order."""

    def __init__(self, ranks: int) -> None:
        """Collective.

        Args:
            ranks: of the run.
        """
        self._ranks = ranks
        # through the CPU, whatever devices the trainer's group connects
        self._group = torch.distributed.new_group(backend="gloo") if ranks > 1 else None

    def gather(self, value: T) -> list[T]:
        """As `Ranks.gather`."""
        return gathered(value, self._ranks, self._group)

    def total(self, values: Tensor) -> Tensor:
        """As `Ranks.total`, added in the order of ranks."""
        return torch.stack(self.gather(values)).sum(0)


def gathered(value: T, ranks: int, group: object = None) -> list[T]:
    """The values of all ranks, in the order of ranks; collective.

    Args:
        value: of this rank; it must be picklable where there are several.
        ranks: of the run.
        group: their process group; None: the trainer's.
    """
    if ranks == 1:
        return [value]
    everyone = [value] * ranks
    torch.distributed.all_gather_object(everyone, value, group=group)
    return everyone
