"""Sums without rounding: factors are rounded first, to so few bits that float64 holds every partial sum of their products.

What is added up without rounding has no order. So a row's result does not depend on the rows beside it, on padding, on the number of
threads or on the kernel that is chosen for a shape.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

BITS = 53
"""Of a float64: whole numbers up to 2^53 and their sums are exact."""
_EXPONENT = 0x7FF0000000000000


def bits_for(terms: int) -> int:
    """Bits of each factor with which a sum of so many products is exact."""
    return (BITS - 1 - (terms - 1).bit_length()) // 2


FINER = 2
"""Bits that a number of a token has more than one of a weight: single features of a token are a thousand times the others."""


def leading(x: Tensor, dim: int) -> Tensor:
    """The largest power of two in the largest absolute value along a dimension, which stays with size 1; 0 where all are 0."""
    low, high = torch.aminmax(x, dim=dim, keepdim=True)
    largest = torch.maximum(low.neg_(), high)
    return (largest.view(torch.int64) & _EXPONENT).view(torch.float64)


def rounded(x: Tensor, dim: int, bits: int) -> Tensor:
    """Float64 numbers rounded to multiples of one power of two along a dimension, the largest to so many bits."""
    return to_multiples(x, leading(x, dim) * 2.0 ** (1 - bits))


def to_multiples(x: Tensor, unit: Tensor | float) -> Tensor:
    """Numbers rounded to the nearest multiples of a power of two, below 2^51 of it."""
    shift = unit * (1.5 * 2.0**52)
    return (x + shift).sub_(shift)


def as_factor(rows: Tensor) -> Tensor:
    """`[..., K]` rows, each rounded by itself for products with others."""
    return rounded(rows, -1, bits_for(rows.shape[-1]))


def product(left: Tensor, right: Tensor) -> Tensor:
    """`[..., I, J]` of `[..., I, K]` and `[..., J, K]`: products of rows, each rounded by itself."""
    return as_factor(left) @ as_factor(right).mT


def row_product(left: Tensor, right: Tensor) -> Tensor:
    """`[..., 1]` of two `[..., K]`: the product of each row with the other's."""
    return (as_factor(left) * as_factor(right)).sum(-1, keepdim=True)


class Rows(NamedTuple):
    """Rows to be added up, each rounded by itself: whole times size."""

    whole: Tensor
    """`[..., J, D]`."""
    size: Tensor
    """`[..., J, 1]`, powers of two; 0 for a row of zeros."""
    bits: int
    """Of each number, and of each weight."""

    @classmethod
    def of(cls, rows: Tensor, terms: int) -> Rows:
        """`[..., J, D]` rows, of which there are at most so many."""
        size, bits = leading(rows, -1), bits_for(terms)
        return cls(to_multiples(rows / torch.where(size == 0, 1.0, size), 2.0 ** (1 - bits)), size, bits)


def weighted(weights: Tensor, rows: Rows) -> Tensor:
    """`[..., I, D]` of `[..., I, J]` and `[..., J, D]`: sums of rows; the weights of each sum are rounded together.

    A row whose weight is 0 has no influence, and neither has the weight of a row of zeros: more of them can stand anywhere.
    """
    return rounded(weights * rows.size.mT, -1, rows.bits) @ rows.whole


GRADIENT_UNIT = 2.0**-44
"""Gradients of parameters are multiples of this, so that those of rows, micro-batches and ranks add up without rounding."""
LARGEST_GRADIENT = 2.0**8
"""Up to here they do."""


def gradient_unit() -> float:
    """The unit on this rank: losses are multiplied by the number of ranks, over which gradients are averaged.

    Raises:
        ValueError: by this number of ranks nothing can be multiplied and divided without rounding.
    """
    ranks = torch.distributed.get_world_size() if torch.distributed.is_available() and torch.distributed.is_initialized() else 1
    if ranks & (ranks - 1):
        raise ValueError(f"BitwisePolicy needs a number of ranks that is a power of two, got {ranks}: set trainer.devices to 1, 2, 4 or 8")
    return GRADIENT_UNIT * ranks
