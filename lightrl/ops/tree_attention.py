"""Attention of rows that stand in one row without padding: each token sees its own row alone."""

from __future__ import annotations

from dataclasses import dataclass

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
    queries, keys = rows.kept("places", None, _places)
    masks = rows.kept("blocks", window, lambda rows, window: [block.mask(window) for block in rows.blocks])
    found = []
    for q, k, v, mask in zip(_taken(query, queries), _taken(key, keys), _taken(value, keys), masks, strict=True):
        if mask is None:
            k, v = _repeated(k, shared), _repeated(v, shared)
            out = scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale).transpose(1, 2)
        else:
            # the queries that share a key stand where further tokens would: nothing is repeated
            q, mask = q.view(len(q), -1, shared, *q.shape[2:]).flatten(2, 3), mask.repeat(1, 1, shared, 1)
            out = scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
            out = out.view(*out.shape[:2], shared, -1, out.shape[-1]).permute(0, 3, 1, 2, 4).flatten(2, 3)
        found.append(out.flatten(0, 1))
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


def _places(rows: PackedRows, window: int | None) -> tuple[_Places, _Places]:
    """Of the queries and of the keys."""
    return _Places.of([block.queries for block in rows.blocks]), _Places.of([block.keys for block in rows.blocks])


@dataclass(frozen=True)
class _Places:
    """Where the tokens of all blocks stand."""

    flat: Tensor
    shapes: list[torch.Size]
    """`[B, W]` of each block."""

    @classmethod
    def of(cls, blocks: list[Tensor]) -> _Places:
        return cls(torch.cat([places.flatten() for places in blocks]), [places.shape for places in blocks])


def _taken(states: Tensor, places: _Places) -> list[Tensor]:
    """`[B, heads, W, D]` for each block, of `[1, heads, T, D]`."""
    # taken at once: the gradient of each taking is as large as all tokens
    found = states.squeeze(0).transpose(0, 1).index_select(0, places.flat)
    parts = torch.split(found, [shape.numel() for shape in places.shapes])
    return [part.view(*shape, *part.shape[1:]).transpose(1, 2) for part, shape in zip(parts, places.shapes, strict=True)]


def _repeated(tensor: Tensor, times: int) -> Tensor:
    return tensor if times == 1 else tensor.repeat_interleave(times, dim=1)
