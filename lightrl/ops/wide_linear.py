"""A linear layer that computes in float32 or better, whatever its inputs and its weights are in."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear


class WideLinear(nn.Linear):
    """A head whose outputs are compared or learnt from: in bfloat16 good completions would tie, and values come in steps of 1/256."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        """`[..., out]`, float32 or better, of `[..., in]`; autocast has no say."""
        wide = torch.promote_types(self.weight.dtype, torch.float32)
        with torch.autocast(input.device.type, enabled=False):
            return linear(input.to(wide), self.weight.to(wide), None if self.bias is None else self.bias.to(wide))
