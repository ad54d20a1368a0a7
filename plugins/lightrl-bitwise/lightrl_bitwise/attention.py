"""Softmax attention of which every sum is exact: whether a query stands alone behind a cache or among others, it gets the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from lightrl_bitwise.sums import Rows, as_factor, product, row_product, to_multiples, weighted

SOFTMAX_UNIT = 2.0**-31
"""Numbers of a softmax are at most 1 before they are divided by their sum; these multiples of it add up exactly."""


class Memory(NamedTuple):
    """Keys and values, rounded once for all queries that see them."""

    keys: Tensor
    """`[n, k, S, D]`."""
    values: Rows

    @classmethod
    def of(cls, key: Tensor, value: Tensor, longest: int) -> Memory:
        """Of `[n, k, S, D]` each; `longest`: the most keys that there ever are, which decides how values are rounded."""
        return cls(as_factor(key), Rows.of(value, longest))


def attended(query: Tensor, memory: Memory, visible: Tensor, scale: float) -> Tensor:
    """`[n, k, Q, D]`: softmax(scale q k^T) v over the keys that each query sees, at least one.

    Args:
        query: `[n, k, Q, D]`; queries that share keys stand one behind the other.
        visible: `[n, 1, Q, S]` bool.
    """
    numbers, total = _softmax(query, memory.keys, visible, scale)
    return weighted(numbers, memory.values).div_(total)


def _softmax(query: Tensor, keys: Tensor, visible: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """`[n, k, Q, S]` numbers, 0 where nothing is seen, and `[n, k, Q, 1]` their sums."""
    scores = (as_factor(query) @ keys.mT).mul_(scale).masked_fill_(~visible, -torch.inf)
    numbers = to_multiples(scores.sub_(scores.amax(-1, keepdim=True)).exp_(), SOFTMAX_UNIT)
    return numbers, numbers.sum(-1, keepdim=True)


class Attention(Function):
    """`attended` with a gradient; probabilities are computed again in the backward pass."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, visible: Tensor, scale: float, longest: int) -> Tensor:
        """`[n, k, Q, D]` of queries, keys and values as they are."""
        found = attended(query, Memory.of(key, value, longest), visible, scale)
        ctx.save_for_backward(query, key, value, visible, found)
        ctx.scale, ctx.longest = scale, longest
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, visible, found = ctx.saved_tensors
        numbers, total = _softmax(query, as_factor(key), visible, ctx.scale)
        probabilities = numbers.div_(total)
        d_scores = product(grad, value).sub_(row_product(grad, found)).mul_(probabilities).mul_(ctx.scale)
        # a key is seen by the queries of all heads that share it
        queries = ctx.longest * (query.shape[2] // key.shape[2])
        d_query = weighted(d_scores, Rows.of(key, ctx.longest))
        d_key, d_value = weighted(d_scores.mT, Rows.of(query, queries)), weighted(probabilities.mT, Rows.of(grad, queries))
        return d_query, d_key, d_value, None, None, None


attention: Callable[..., Tensor] = Attention.apply
