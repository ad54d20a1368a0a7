"""The policy's weights in Ray's object store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import ray
from torch import Tensor

if TYPE_CHECKING:
    from lightrl import PackedWeights


@dataclass(frozen=True)
class StoredWeights:
    """Names the blocks that hold the weights; each node fetches a block once, for all of its actors."""

    whole: ray.ObjectRef[PackedWeights]
    """The last block with every tensor."""
    latest: ray.ObjectRef[PackedWeights]
    """Those that may have changed since; maybe the same block."""

    def tensors(self, every: bool) -> Iterator[tuple[str, Tensor]]:
        """Tensors by their names; what comes again replaces what came before.

        They show memory that all actors of a node share, and that torch would let them change: copy them at once.

        Args:
            every: all of the policy's; False: those that may have changed.
        """
        if every and self.whole != self.latest:
            yield from ray.get(self.whole).tensors()
        yield from ray.get(self.latest).tensors()
