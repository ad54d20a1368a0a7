"""Weights that are still in their files: a model is built without them, and each is read where it is needed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

Memo = dict[int, object]


class CannotStayLazyError(Exception):
    """Weights cannot be left in their files; says why."""


class LazyParameter(nn.Parameter):
    """A parameter whose values have not been read: it has a shape and takes hardly any memory, and every value is NaN."""

    source: Callable[[], Tensor]
    """Reads the values, from the beginning each time."""

    @classmethod
    def like(cls, parameter: nn.Parameter, source: Callable[[], Tensor]) -> LazyParameter:
        """One of the same shape and dtype, on the CPU.

        Args:
            parameter: on any device, `meta` included.
            source: gives a tensor of that shape.
        """
        # value [i, j] stands at i + j: rows differ, also where something else than NaN stands in for them
        line = torch.full((sum(parameter.shape) + 1,), torch.nan, dtype=parameter.dtype)
        lazy = cls(line.as_strided(parameter.shape, (1,) * parameter.dim()), parameter.requires_grad)
        lazy.source = source
        return lazy

    def values(self) -> Tensor:
        """The values, in the parameter's dtype. What is written into them may be lost."""
        found = self.source()
        if found.shape != self.shape:
            raise ValueError(f"a weight of the shape {list(self.shape)} has {list(found.shape)} in its file")
        return found.to(self.dtype)

    def read(self) -> None:
        """Become an ordinary parameter with these values."""
        self.data = self.values().clone()
        self.__class__ = nn.Parameter  # type: ignore[assignment]

    def __deepcopy__(self, memo: Memo) -> LazyParameter:
        if id(self) not in memo:
            memo[id(self)] = type(self).like(self, copy.deepcopy(self.source, memo))
        found = memo[id(self)]
        if not isinstance(found, LazyParameter):
            raise TypeError(f"a copy of a lazy parameter became a {type(found).__name__}")
        return found


def values_of(parameter: nn.Parameter) -> Tensor:
    """The values of a parameter, from their file if they have not been read."""
    return parameter.values() if isinstance(parameter, LazyParameter) else parameter.detach()


def lazy_in(module: nn.Module) -> list[LazyParameter]:
    """The parameters of a module that have not been read."""
    return [parameter for parameter in module.parameters() if isinstance(parameter, LazyParameter)]


def read(module: nn.Module) -> None:
    """Read every parameter of a module that has not been read."""
    for parameter in lazy_in(module):
        parameter.read()


@contextmanager
def dummy_values(module: nn.Module) -> Iterator[None]:
    """Within, parameters that have not been read have small random numbers in place of NaN, so that the module can be run."""
    lines = [parameter.data.as_strided((sum(parameter.shape) + 1,), (1,)) for parameter in lazy_in(module)]
    made = torch.Generator().manual_seed(0)
    for line in lines:
        line.normal_(0.0, 0.05, generator=made)
    try:
        yield
    finally:
        for line in lines:
            line.fill_(torch.nan)
