"""The entropy of rows of logits, with a gradient that takes one temporary of their size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def entropies(logits: Tensor) -> Tensor:
    """The entropy of softmax(logits), in nats.

    H = -sum_v p_v log p_v, dH / dlogits_v = -p_v (log p_v + H).

    Args:
        logits: `[m, V]`; -inf: a token of probability 0, which adds nothing.

    Returns:
        `[m]`.
    """
    apply: Callable[[Tensor], Tensor] = _Entropies.apply
    return apply(logits)


class _Entropies(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> Tensor:
        logp = logits.log_softmax(-1)
        p = logp.exp()
        # 0 times -inf would be NaN
        logp.masked_fill_(p == 0, 0.0)
        found: Tensor = torch.linalg.vecdot(p, logp).neg_()
        ctx.save_for_backward(p, logp, found)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        p, logp, found = ctx.saved_tensors
        through: Tensor = (logp + found[:, None]).mul_(p).mul_(-grad[:, None])
        return through
