"""Adam and AdamW in one kernel on CUDA."""

from __future__ import annotations

import torch


def fuse(optimizer: torch.optim.Optimizer, device: torch.device) -> str | None:
    """Have Adam or AdamW make its step in one kernel on CUDA, where it was not said how it makes it.

    Args:
        optimizer: any; it has made no step yet.
        device: on which it will make its steps; a strategy may still have to move the parameters there.

    Returns:
        A sentence for the user; None if nothing was changed.
    """
    if type(optimizer) not in (torch.optim.Adam, torch.optim.AdamW):
        return None
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    fitting = device.type == "cuda" and all(parameter.is_floating_point() for parameter in parameters)
    open_to_it = all(group["fused"] is None and not (group["foreach"] or group["capturable"]) for group in optimizer.param_groups)
    if not (parameters and fitting and open_to_it):
        return None
    for group in optimizer.param_groups:
        group["fused"] = True
    return f"{type(optimizer).__name__} steps in one fused kernel; model.optimizer with fused: false takes torch's default"
