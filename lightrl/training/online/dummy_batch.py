"""A row for a rank that has none in a step that other ranks make."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

import torch
from torch import Tensor

from lightrl.types import Prompt, Rollout

R = TypeVar("R", bound=Rollout)


def dummy_batch(batch: R) -> R:
    """One row of two tokens without a response: it weighs nothing, and its backward takes part in the sums over ranks.

    Args:
        batch: whose fields, dtypes and devices the row has; may be empty.
    """
    row = type(batch)(**{f.name: _neutral(f.name, getattr(batch, f.name), len(batch)) for f in fields(batch)}).padded(2)
    row.attention_mask[:] = True
    return row


def _neutral(name: str, value: object, rows: int) -> Any:
    if isinstance(value, Tensor):
        return torch.zeros((1, *value.shape[1:]), dtype=value.dtype, device=value.device)
    if isinstance(value, dict):
        return {key: _neutral(key, part, rows) for key, part in value.items()}
    if name == "prompts":
        return [Prompt(id="dummy", text="")]
    return [""] if isinstance(value, list) and len(value) == rows else value
