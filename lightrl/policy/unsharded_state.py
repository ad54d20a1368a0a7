"""The state dict of a module as it stands, whoever shards it."""

from __future__ import annotations

from torch import Tensor, nn


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
