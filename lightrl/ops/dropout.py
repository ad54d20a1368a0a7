"""Dropout and reinforcement learning do not go together: two passes over one row must agree."""

from typing import TypeVar

from torch import nn

M = TypeVar("M", bound=nn.Module)


def without_dropout(model: M) -> M:
    """The same model with every dropout at 0: otherwise the ratio of an unchanged policy would differ from 1."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name in ("attention_dropout", "dropout", "activation_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return model
