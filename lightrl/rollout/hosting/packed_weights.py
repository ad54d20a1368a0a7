"""The policy's weights in one block of bytes, as they travel to other machines."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lightrl.rollout.hosting.shared_weights import TensorPlace, WeightBlock, tensors_in, the_same


@dataclass(frozen=True, eq=False)
class PackedWeights:
    """Tensors in one array, which is sent at once."""

    places: tuple[TensorPlace, ...]
    """Of the tensors in the array."""
    values: NDArray[np.uint8]
    """`[bytes]`."""

    @classmethod
    def of(cls, tensors: Iterable[tuple[str, Tensor]], known: PackedWeights | None = None) -> PackedWeights:
        """Copy tensors, each as it comes.

        Args:
            tensors: by their names.
            known: the same tensors as they were before, and maybe more; None: nothing is known of them.

        Raises:
            ValueError: one differs in dtype or shape from what is known, or is new.
        """
        block = WeightBlock()
        try:
            block.write(tensors if known is None else _checked(tensors, known.places))
            # the system keeps the block until the array is gone
            values = np.frombuffer(mmap.mmap(block.descriptor, 0, access=mmap.ACCESS_READ), np.uint8)
        finally:
            block.close()
        return cls(block.places, values)

    def without_values(self) -> PackedWeights:
        """Names, dtypes and shapes alone."""
        return PackedWeights(self.places, np.empty(0, np.uint8))

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Tensors by their names. They show the array itself, which others may share: copy them at once, and write to none."""
        return tensors_in(self.values.data, self.places)


def _checked(tensors: Iterable[tuple[str, Tensor]], known: Sequence[TensorPlace]) -> Iterator[tuple[str, Tensor]]:
    places = {place.name: place for place in known}
    for name, tensor in tensors:
        the_same(TensorPlace(name, tensor.dtype, tuple(tensor.shape), 0), places.get(name))
        yield name, tensor
