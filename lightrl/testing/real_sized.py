"""A tiny policy whose logits are as large as those of trained ones, so that rounding shows in its log-probs."""

from __future__ import annotations

from typing import Any

import torch

from lightrl.policy.policy import Policy
from lightrl.policy.source import TinyPolicy

LARGEST = 30.0
"""Largest logit; those of a new TinyPolicy are near 1, and bfloat16 rounds them to 0.004 instead of 0.125."""


class RealSizedPolicy(TinyPolicy):
    """A TinyPolicy whose last norm is scaled until its largest logit is `LARGEST`."""

    def __init__(self, hidden: int = 128, layers: int = 4, **kwargs: Any) -> None:
        """
        Args:
            hidden: width.
            layers: number of blocks.
            **kwargs: of `TinyPolicy`.
        """
        super().__init__(hidden=hidden, layers=layers, **kwargs)

    @torch.no_grad()
    def build(self) -> Policy:
        policy = super().build()
        ids = torch.arange(2, len(self.alphabet) + 2)[None]
        policy.model.base_model.norm.weight.mul_(LARGEST / policy.model(input_ids=ids, use_cache=False).logits.abs().max())
        return policy
