"""The policy's weights as bytes: in memory that several processes see, or packed as they travel to other machines."""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Buffer: TypeAlias = mmap.mmap | memoryview
ALIGNED = 64
"""Bytes that the place of a tensor is a multiple of, so that every dtype can be read there."""


@dataclass(frozen=True)
class TensorPlace:
    """The place of one tensor in the block."""

    name: str
    """As Hugging Face has it."""
    dtype: torch.dtype
    """Of its values."""
    shape: tuple[int, ...]
    """Of the tensor."""
    offset: int
    """Its first byte."""

    @property
    def size(self) -> int:
        """Bytes."""
        return torch.Size(self.shape).numel() * self.dtype.itemsize


class WeightBlock:
    """A block of memory without a name, laid out once: the system frees it when the last process that holds it has ended."""

    def __init__(self) -> None:
        self.descriptor = _memory()
        """Of the block; a process that has it may map it."""
        self.places: tuple[TensorPlace, ...] = ()
        """Every tensor, in its order; none before the first `write`."""

    def write(self, tensors: Iterable[tuple[str, Tensor]]) -> frozenset[str]:
        """Copy tensors into the block, each as it comes.

        Args:
            tensors: all of them the first time, and those that may have changed later.

        Returns:
            Their names.

        Raises:
            ValueError: one differs in dtype or shape from the first time, or is new.
        """
        laid_out = {place.name: place for place in self.places}
        places, end = list[TensorPlace](), 0
        for name, tensor in tensors:
            place = TensorPlace(name, tensor.dtype, tuple(tensor.shape), end)
            if laid_out:
                place = the_same(place, laid_out.get(name))
            places.append(place)
            _write(self.descriptor, tensor, place.offset)
            end = -(-(place.offset + place.size) // ALIGNED) * ALIGNED
        if not laid_out:
            os.ftruncate(self.descriptor, max(end, 1))
            self.places = tuple(places)
        return frozenset(place.name for place in places)

    def close(self) -> None:
        """Give the memory back, once the others have closed it too."""
        os.close(self.descriptor)


class MappedWeights:
    """A block as another process reads it."""

    def __init__(self, descriptor: int, places: tuple[TensorPlace, ...]) -> None:
        """`descriptor`: of the block; it is closed here."""
        self._places = places
        # nobody but the owner writes
        self._block = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        os.close(descriptor)

    def tensors(self, names: Collection[str] | None = None) -> Iterator[tuple[str, Tensor]]:
        """Tensors by their names, to be copied at once. `names`: of those that are wanted; None: all."""
        yield from tensors_in(self._block, (place for place in self._places if names is None or place.name in names))


@dataclass(frozen=True)
class SharedWeights:
    """Weights in a block that workers of this machine have mapped."""

    names: frozenset[str]
    """Tensors that may have changed."""
    block: MappedWeights | None = None
    """Of the worker; it travels apart."""

    def tensors(self, every: bool) -> Iterator[tuple[str, Tensor]]:
        """Tensors by their names, to be copied at once."""
        if self.block is None:
            raise RuntimeError("weights came before the block that they are in")
        return self.block.tensors(None if every else self.names)


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


def tensors_in(block: Buffer, places: Iterable[TensorPlace]) -> Iterator[tuple[str, Tensor]]:
    """Tensors by their names, to be copied at once."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given buffer is not writable")
        values = torch.frombuffer(block, dtype=torch.uint8)
    for place in places:
        yield place.name, values[place.offset : place.offset + place.size].view(place.dtype).view(place.shape)


def _memory() -> int:
    if sys.platform == "linux":
        return os.memfd_create("lightrl weights")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _write(descriptor: int, tensor: Tensor, offset: int) -> None:
    # a copy: what numpy has seen can no longer be resized, and FSDP2 resizes its tensors
    values = tensor.detach().to("cpu", copy=True).contiguous().reshape(-1).view(torch.uint8).numpy().data
    while len(values):
        # the system writes two gigabytes at a time
        written = os.pwrite(descriptor, values, offset)
        values, offset = values[written:], offset + written


def the_same(place: TensorPlace, before: TensorPlace | None) -> TensorPlace:
    """The place that a tensor had before; a ValueError if it had another dtype or shape, or there was no such tensor."""
    if before is None or (place.dtype, place.shape) != (before.dtype, before.shape):
        first = "there was no such tensor" if before is None else f"it was {_seen(before)}"
        raise ValueError(f"the policy's tensor {place.name} is {_seen(place)}, and at the first update {first}")
    return before


def _seen(place: TensorPlace) -> str:
    return f"{list(place.shape)} {str(place.dtype).removeprefix('torch.')}"
