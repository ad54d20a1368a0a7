"""Attention of rows that stand in one row without padding: each token sees its own row alone."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask
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
    for block, mask in zip(rows.blocks, rows.kept("blocks", window, _masks), strict=True):
        q = _taken(tokens[0], block.queries)
        k, v = (_repeated(_taken(tensor, block.keys), shared) for tensor in tokens[1:])
        out = scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, scale=scale)
        found.append(out.transpose(1, 2).flatten(0, 1))
    return torch.cat(found).index_select(0, rows.inverse)[None]


def tree_blocks(rows: PackedRows, window: int | None, size: int = 128) -> BlockMask:
    """The same as a mask for flex attention, which skips the blocks of T x T in which nobody sees anybody.

    Args:
        rows: the tokens.
        window: as in `tree_attention`.
        size: queries and keys of a block.
    """
    ends, positions, tokens = rows.ends, rows.position_ids[0], len(rows)

    def sees(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        in_row = (key <= query) & (query < ends[key])
        return in_row if window is None else in_row & (positions[query] - positions[key] < window)

    first = torch.arange(0, tokens, size, device=ends.device)
    blocks = torch.nn.functional.pad(ends, (0, len(first) * size - tokens)).view(-1, size)
    before = first < first[:, None]
    some = (before & (blocks.amax(1) > first[:, None])) | (first == first[:, None])
    every = before & (blocks.amin(1) >= (first[:, None] + size).clamp(max=tokens)) & (window is None)
    return BlockMask.from_kv_blocks(*_listed(some & ~every), *_listed(every), BLOCK_SIZE=size, mask_mod=sees, seq_lengths=(tokens, tokens))


def _listed(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """How many of a line of blocks are chosen, and the numbers of the blocks, those that are chosen first."""
    order = blocks.int().argsort(dim=1, descending=True, stable=True)
    return blocks.sum(1).int()[None, None], order.int()[None, None]


def _masks(rows: PackedRows, window: int | None) -> list[Tensor | None]:
    return [block.mask(window) for block in rows.blocks]


def _taken(tokens: Tensor, places: Tensor) -> Tensor:
    """`[B, heads, W, D]` of `[T, heads, D]` at `[B, W]` places."""
    return tokens.index_select(0, places.flatten()).view(*places.shape, *tokens.shape[1:]).transpose(1, 2)


def _repeated(tensor: Tensor, times: int) -> Tensor:
    return tensor if times == 1 else tensor.repeat_interleave(times, dim=1)
