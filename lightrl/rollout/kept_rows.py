"""Keys and values of rows that have left the batch and may come back: what was read once is not read again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from lightrl.rollout.cache import GrowingLayer


@dataclass(frozen=True)
class KeptRow:
    """One row between two turns of its episode."""

    layers: list[tuple[Tensor, Tensor]]
    """Per full-attention layer its keys and values, `[heads, length, width]` each, without padding."""
    length: int
    """Tokens that were read."""


def take_out(cache: Cache, row: int, mask: Tensor | None, length: int) -> KeptRow:
    """Copy one row out of the cache.

    Args:
        cache: of the batch.
        row: its number in the batch.
        mask: `[n, positions]` bool, False where a row has padding or a gap; None: there is none.
        length: its first tokens that count; what was fed after its end does not.
    """
    where = slice(length) if mask is None else mask[row].nonzero()[:length, 0]
    layers = [layer for layer in cache.layers if isinstance(layer, GrowingLayer)]
    return KeptRow([(layer.keys[row][:, where].clone(), layer.values[row][:, where].clone()) for layer in layers], length)


def put_back(cache: Cache, rows: Sequence[KeptRow]) -> Tensor:
    """Fill an empty cache with rows of any lengths, padded on the left.

    Args:
        cache: whose full-attention layers are filled.
        rows: n of them.

    Returns:
        `[n, longest]` bool: where a row has a token.
    """
    lengths = torch.tensor([row.length for row in rows])
    longest = int(lengths.max())
    layers = [layer for layer in cache.layers if isinstance(layer, GrowingLayer)]
    for number, layer in enumerate(layers):
        layer.restore(
            _stacked([row.layers[number][0] for row in rows], longest), _stacked([row.layers[number][1] for row in rows], longest)
        )
    return torch.arange(longest) >= longest - lengths[:, None]


def _stacked(states: Sequence[Tensor], longest: int) -> Tensor:
    heads, _, width = states[0].shape
    out = states[0].new_zeros(len(states), heads, longest, width)
    for i, state in enumerate(states):
        out[i, :, longest - state.shape[1] :] = state
    return out
