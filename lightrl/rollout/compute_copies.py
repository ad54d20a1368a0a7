"""Copies of a model's matrices in the format in which its layers multiply them, for the time of a rollout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from lightrl.ops.head_product import head_format
from lightrl.policy.head import ScoringHead

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LINEAR = (nn.Linear, Conv1D)
"""Layers that do nothing with their weights but multiply by them."""


class ComputeCopies:
    """The matrices of linear layers as autocast, or a head in float32, would convert them at every token; no others are copied.

    A weight that is tied to an embedding is copied for the head alone, and results are those without copies.
    """

    @torch.no_grad()
    def __init__(self, model: PreTrainedModel) -> None:
        """
        Args:
            model: whose weights are whole, where it computes as it will while the copies are lent.
        """
        self._copies = [
            (module._parameters, name, nn.Parameter(weight.to(wanted), requires_grad=False))
            for module in model.modules()
            for name, weight in module._parameters.items()
            if weight is not None and (wanted := _format(module, weight)) != weight.dtype
        ]

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Within, the layers have the copies in the places of their weights."""
        own = [(owner, name, owner[name]) for owner, name, _ in self._copies]
        for owner, name, copy in self._copies:
            owner[name] = copy
        try:
            yield
        finally:
            for owner, name, weight in own:
                owner[name] = weight


def _format(module: nn.Module, weight: nn.Parameter) -> torch.dtype:
    """The format in which a module multiplies this weight."""
    if type(module) is ScoringHead:
        return head_format(weight)
    kind = weight.device.type
    linear = type(module) in LINEAR and torch.is_autocast_enabled(kind)
    return torch.get_autocast_dtype(kind) if linear and weight.dtype == torch.float32 else weight.dtype
