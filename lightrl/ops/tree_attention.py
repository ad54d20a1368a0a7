"""Attention of rows that stand in one row without padding: each token sees its own row alone."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask
from torch.nn.functional import scaled_dot_product_attention

from lightrl.ops.packing import PackedRows


def tree_attention(query: Tensor, key: Tensor, value: Tensor, rows: PackedRows, scale: float | None, window: int | None) -> Tensor:
    """`[1, T, heads, D]`: softmax(scale q k^T) v of every token over the tokens of its row up to itself.

    Segments of alike shape go through one call, with the keys of what stands in front of them gathered beside their own. What pads
    them is masked, so its weights are exactly 0.

    Args:
        query: `[1, heads, T, D]`.
        key: `[1, key heads, T, D]`, each for heads / key heads of the query's.
        value: as `key`.
        rows: the tokens.
        scale: of the scores; None: 1 / sqrt(D).
        window: tokens that one sees at most, itself included; None: any number.
    """
    shared = query.shape[1] // key.shape[1]
    tokens = [tensor[0].transpose(0, 1) for tensor in (query, key, value)]
    found = []
    for block, mask in zip(rows.blocks, rows.block_masks(window), strict=True):
        q = _taken(tokens[0], block.queries)
        k, v = (_repeated(_taken(tensor, block.keys), shared) for tensor in tokens[1:])
        out = scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, scale=scale)
        found.append(out.transpose(1, 2).flatten(0, 1))
    return torch.cat(found).index_select(0, rows.inverse)[None]


def tree_blocks(rows: PackedRows, window: int | None) -> BlockMask:
    """The same as a mask for flex attention, which skips the blocks of T x T that nobody sees.

    Args:
        rows: the tokens.
        window: as in `tree_attention`.
    """
    ends, positions = rows.ends, rows.position_ids[0]

    def sees(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        in_row = (key <= query) & (query < ends[key])
        return in_row if window is None else in_row & (positions[query] - positions[key] < window)

    return create_block_mask(sees, None, None, len(rows), len(rows), device=ends.device.type)


def _taken(tokens: Tensor, places: Tensor) -> Tensor:
    """`[B, heads, W, D]` of `[T, heads, D]` at `[B, W]` places."""
    return tokens.index_select(0, places.flatten()).view(*places.shape, *tokens.shape[1:]).transpose(1, 2)


def _repeated(tensor: Tensor, times: int) -> Tensor:
    return tensor if times == 1 else tensor.repeat_interleave(times, dim=1)
