"""How a rank gets at weights that a strategy may have cut over the ranks."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from torch import Tensor, nn

T = TypeVar("T")


class WeightAccess:
    """The access of one rank that has all weights; strategies have their own."""

    @property
    def rank(self) -> int:
        """The rank of this process."""
        return 0

    def gathered_weights(self) -> AbstractContextManager[None]:
        """Within, every parameter is whole on this rank, and no hook disturbs generating; collective."""
        return nullcontext()

    def gathered(self, module: nn.Module) -> AbstractContextManager[None]:
        """Within, the parameters of one module inside the policy are whole on this rank; collective."""
        return nullcontext()

    def whole(self, tensor: Tensor) -> Tensor:
        """One parameter or buffer, whole on this rank; collective."""
        return tensor

    def gather(self, value: T) -> list[T]:
        """The values of all ranks, in the order of ranks."""
        return [value]


def unsharded_state(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and persistent buffers by their names, as `state_dict` has them, without its hooks.

    FSDP2 shards a module again in a hook of `state_dict`, also where weights are gathered already; and its ranks wait for each other there,
    so that one of them alone would never return.

    Args:
        module: with gathered weights.
    """
    return {
        f"{prefix}.{name}" if prefix else name: tensor.detach()
        for prefix, part in module.named_modules(remove_duplicate=False)
        for name, tensor in [*part._parameters.items(), *part._buffers.items()]
        if tensor is not None and name not in part._non_persistent_buffers_set
    }
