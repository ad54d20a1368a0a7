"""Attention of a decode step: the newest position of each row reads all positions so far.

The fused attention of torch multiplies one head of one row at a time, and waits for its keys and values anew. On an x86 CPU that is not
Intel's, where these are many, they are taken as rows of a table, which two operations of torch read with the next rows on their way.
"""

from __future__ import annotations

import warnings
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from lightrl.ops.head_product import mkl_is_quick

MANY = 2**18
"""Numbers of the keys from which tables are quicker; fewer stay in the caches of a core."""


class DecodeAttention:
    """softmax(scale * query keys^T + closed) values, for all layers of a step, which read the same places of their tables."""

    def __init__(self) -> None:
        self._of: object = None
        self._closed: Tensor | None = None
        self._places: Tensor
        self._added: Tensor

    def __call__(self, query: Tensor, keys: Tensor, values: Tensor, closed: Tensor | None, scale: float) -> Tensor:
        """
        Args:
            query: `[n, heads, queries, width]`; the queries of a head share its keys.
            keys: `[n, heads, positions, width]`, the front part of a buffer.
            values: of another buffer alike.
            closed: `[n, 1, 1, positions]`, minus infinity where a row has padding, or None: nowhere.

        Returns:
            `[n, heads, queries, width]`.
        """
        if keys.numel() < MANY or mkl_is_quick() or not _are_tables(keys, values):
            return F.scaled_dot_product_attention(query, keys, values, attn_mask=closed, scale=scale)
        of = query.shape, keys.shape, keys.stride()
        if of != self._of or closed is not self._closed:
            self._of, self._closed = of, closed
            self._places, self._added = _places(query, keys, closed)
        scores = torch.sparse.sampled_addmm(self._added, query.reshape(-1, query.shape[-1]), _table(keys).T, alpha=scale)
        weights = scores.values().view_as(self._places).softmax(-1)
        return F.embedding_bag(self._places, _table(values), per_sample_weights=weights, mode="sum").view_as(query)


def _are_tables(keys: Tensor, values: Tensor) -> bool:
    """They are of a kind that was measured, and all their positions have places at one distance."""
    if keys.device.type != "cpu" or keys.dtype != torch.float32 or not torch.backends.cpu.get_cpu_capability().startswith("AVX"):
        return False
    _, heads, _, width = keys.shape
    of_row, of_head, *rest = keys.stride()
    return values.stride() == keys.stride() and rest == [width, 1] and of_row == heads * of_head and of_head % width == 0


def _table(states: Tensor) -> Tensor:
    """`[n * heads * places, width]`: the buffer of these rows, with the places that no position has yet."""
    rows, heads, _, width = states.shape
    return states.as_strided((rows * heads * states.stride(1) // width, width), (width, 1))


def _places(query: Tensor, keys: Tensor, closed: Tensor | None) -> tuple[Tensor, Tensor]:
    """`[n * heads * queries, positions]` places that each query reads, and, in a CSR tensor, what is added to its scores there."""
    rows, heads, positions, width = keys.shape
    places = keys.stride(1) // width
    first = torch.arange(0, rows * heads * places, places)[:, None, None]
    read = (first + torch.arange(positions)).expand(-1, query.shape[2], -1).flatten(0, 1)
    added = keys.new_zeros(read.numel()) if closed is None else closed.expand(*query.shape[:-1], positions).flatten()
    ends = torch.arange(0, read.numel() + 1, positions)
    return read, csr(ends, read.flatten(), added, (len(read), rows * heads * places))


def csr(ends: Tensor, places: Tensor, numbers: Tensor, shape: tuple[int, int]) -> Tensor:
    """A sparse tensor for sampled products: they compute one number for each place of a row, and add it to the one that is there."""
    _hear_of_csr()
    return torch.sparse_csr_tensor(ends, places, numbers, shape)


@cache
def _hear_of_csr() -> None:
    """Let torch say here, where it is not shown, what it says once of the first tensor of this kind: that they are in beta."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.sparse_csr_tensor([0, 1], [0], [0.0], (1, 1))
