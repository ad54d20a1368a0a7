"""Linear layers, RMS norms and embeddings of which every sum is exact, in the forward and in the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from lightrl_bitwise.sums import FINER, bits_for, gradient_unit, rounded, row_product, to_multiples


class Linear(Function):
    """x weight^T + bias of the tokens of several rows, one behind the other."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, lengths: Sequence[int]) -> Tensor:
        """`[T, N]` of `[T, K]`, `[N, K]` and `[N]`; the lengths of the rows add up to T."""
        ctx.save_for_backward(x, weight)
        ctx.lengths, ctx.has_bias = lengths, bias is not None
        return multiplied(x, rounded_weight(weight), bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        d_x = through(grad, weight) if ctx.needs_input_grad[0] else None
        d_weight = _gradient_of_weight(grad, x, ctx.lengths) if ctx.needs_input_grad[1] else None
        d_bias = to_multiples(grad, gradient_unit()).sum(0) if ctx.has_bias and ctx.needs_input_grad[2] else None
        return d_x, d_weight, d_bias, None


def rounded_weight(weight: Tensor) -> Tensor:
    """A weight as `multiplied` takes it; it can be kept as long as the weight stays as it is."""
    return rounded(weight.double(), -1, bits_for(weight.shape[-1]) - FINER)


def multiplied(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`[T, N]` of `[T, K]` and a rounded weight."""
    found = rounded(x, -1, bits_for(x.shape[-1]) + FINER) @ weight.mT
    return found if bias is None else found.add_(bias)


def through(grad: Tensor, weight: Tensor) -> Tensor:
    """`[T, K]`: the gradient of what is multiplied by a weight, of `[T, N]` and `[N, K]`."""
    bits = bits_for(weight.shape[0])
    return rounded(grad, -1, bits + FINER) @ rounded(weight, 0, bits - FINER)


def _gradient_of_weight(grad: Tensor, x: Tensor, lengths: Sequence[int]) -> Tensor:
    """The sum over rows: each row's is exact, rounded to the unit of gradients, and then added up exactly."""
    found = grad.new_zeros(grad.shape[1], x.shape[1])
    unit, begin = gradient_unit(), 0
    for length in lengths:
        row = slice(begin, begin + length)
        bits = bits_for(length)
        found += to_multiples(rounded(grad[row], 0, bits).T @ rounded(x[row], 0, bits), unit)
        begin += length
    return found


class Norm(Function):
    """x / sqrt(mean(x^2) + epsilon) times a weight, over the last dimension."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """`[..., H]` of `[..., H]` and `[H]`."""
        scale = 1 / (row_product(x, x) / x.shape[-1] + epsilon).sqrt_()
        normed = x * scale
        ctx.save_for_backward(normed, scale, weight)
        return normed * weight

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        normed, scale, weight = ctx.saved_tensors
        weighed = grad * weight
        d_x = (weighed - normed * (row_product(weighed, normed) / normed.shape[-1])).mul_(scale)
        d_weight = to_multiples(grad * normed, gradient_unit()).flatten(0, -2).sum(0) if ctx.needs_input_grad[1] else None
        return d_x, d_weight, None


class Embedding(Function):
    """The rows of a table."""

    @staticmethod
    def forward(ctx: Any, ids: Tensor, weight: Tensor, padding: int | None) -> Tensor:
        """`[T, H]` of `[T]` and `[V, H]`; the row of padding does not learn."""
        ctx.save_for_backward(ids, weight)
        ctx.padding = padding
        return weight.index_select(0, ids).double()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, None]:
        ids, weight = ctx.saved_tensors
        found = torch.zeros_like(weight).index_add_(0, ids, to_multiples(grad, gradient_unit()))
        if ctx.padding is not None:
            found[ctx.padding] = 0.0
        return None, found, None


linear: Callable[..., Tensor] = Linear.apply
norm: Callable[..., Tensor] = Norm.apply
embedding: Callable[..., Tensor] = Embedding.apply
