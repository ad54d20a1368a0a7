"""Other tensors in the places of a module's own, for some time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn


class ReplacedTensors:
    """Tensors that take the places of some parameters and buffers of a module; its own are not touched, and come back as they were."""

    def __init__(self, module: nn.Module, instead_of: Callable[[nn.Module, Tensor], Tensor]) -> None:
        """`instead_of`: gives what takes the place of a tensor of one of its modules, or the tensor itself, which then stays."""
        self._others: list[tuple[dict[str, Any], str, Tensor]] = [
            (owner, name, nn.Parameter(other, requires_grad=False) if isinstance(tensor, nn.Parameter) else other)
            for part in module.modules()
            for owner in (part._parameters, part._buffers)
            for name, tensor in owner.items()
            if tensor is not None and (other := instead_of(part, tensor)) is not tensor
        ]

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within, they are there."""
        own = [(owner, name, owner[name]) for owner, name, _ in self._others]
        for owner, name, tensor in self._others:
            owner[name] = tensor
        try:
            yield
        finally:
            for owner, name, tensor in own:
                owner[name] = tensor
