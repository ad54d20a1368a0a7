"""The experts of a mixture, computed in a way that takes the numbers of the model."""

from __future__ import annotations

from typing import Any, TypeVar

import torch

M = TypeVar("M")


def with_fitting_experts(model: M) -> M:
    """The same model; in float64 with its experts one after the other, since the faster ways of transformers take no such numbers.

    Args:
        model: of transformers, mixture or not.
    """
    of_transformers: Any = model
    if of_transformers.dtype == torch.float64 and of_transformers._can_set_experts_implementation():
        of_transformers.set_experts_implementation("eager")
    return model
