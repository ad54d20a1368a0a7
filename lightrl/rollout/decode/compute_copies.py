"""Copies of a model's matrices in the format in which its layers multiply them, for the time of a rollout."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from lightrl.ops.head_product import head_format
from lightrl.ops.replaced_tensors import ReplacedTensors
from lightrl.policy.head import ScoringHead

LINEAR = (nn.Linear, Conv1D)
"""Layers that do nothing with their weights but multiply by them."""


@torch.no_grad()
def compute_copies(model: PreTrainedModel) -> ReplacedTensors:
    """The matrices of linear layers as autocast, or a head with float32 sums, would convert them at every token; nothing else is copied.

    A weight that is tied to an embedding is copied for the head alone. Results are those without copies.

    Args:
        model: whose weights are whole, with or without autocast as it will compute.
    """
    return ReplacedTensors(model, lambda module, tensor: tensor.to(_format(module, tensor)))


def _format(module: nn.Module, tensor: Tensor) -> torch.dtype:
    """The format in which a module multiplies this tensor of its own."""
    if type(module) is ScoringHead:
        return head_format(tensor)
    kind = tensor.device.type
    converted = type(module) in LINEAR and tensor.dtype == torch.float32 and torch.is_autocast_enabled(kind)
    return torch.get_autocast_dtype(kind) if converted else tensor.dtype
