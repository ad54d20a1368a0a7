"""Keys and values of rows that have left the batch and may come back: what was read once is not read again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from lightrl.rollout.decode.cache import GrowingLayer
from lightrl.rows import onto


@dataclass(frozen=True)
class KeptRow:
    """One row between two turns of its episode."""

    rows: list[tuple[Tensor, Tensor]]
    """Of it and those that left the batch with it, per full-attention layer: keys and values, `[rows, heads, longest, width]` each, padded
    on the left."""
    index: int
    """Its number among them."""
    length: int
    """Tokens that were read."""


def take_out(cache: Cache, places: Sequence[int], mask: Tensor | None, lengths: Sequence[int]) -> list[KeptRow]:
    """Copy rows out of the cache.

    Args:
        places: their numbers in the batch; at least one.
        mask: `[n, positions]` bool, False where a row has padding or a gap; None: there is none.
        lengths: the first tokens of each that count; what was fed after its end does not.
    """
    layers = _growing(cache)
    states = layers[0].keys
    at = onto(torch.tensor(places), states.device)
    read = torch.ones(len(places), states.shape[-2], dtype=torch.bool, device=states.device) if mask is None else mask[at]
    counting = read & (read.cumsum(1) <= onto(torch.tensor(lengths), states.device)[:, None])
    # what counts comes last and in its order, so that gaps become padding on the left
    order = counting.byte().argsort(dim=1, stable=True)[:, -max(lengths) :]
    rows = [(_taken(layer.keys, at, order), _taken(layer.values, at, order)) for layer in layers]
    return [KeptRow(rows, index, length) for index, length in enumerate(lengths)]


def put_back(cache: Cache, rows: Sequence[KeptRow]) -> Tensor:
    """Fill an empty cache with rows of any lengths, padded on the left; `[n, longest]` bool, True where a row has a token."""
    lengths = torch.tensor([row.length for row in rows])
    longest = int(lengths.max())
    together: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        together.setdefault(id(row.rows), []).append(place)
    parts = []
    for places in together.values():
        kept = rows[places[0]].rows
        device = kept[0][0].device
        indices = torch.tensor([rows[place].index for place in places])
        parts.append((kept, onto(indices, device), onto(torch.tensor(places), device)))
    for number, layer in enumerate(_growing(cache)):
        keys, values = ([(part[number][i], indices, places) for part, indices, places in parts] for i in (0, 1))
        layer.restore(_stacked(keys, len(rows), longest), _stacked(values, len(rows), longest))
    return torch.arange(longest) >= longest - lengths[:, None]


def _growing(cache: Cache) -> list[GrowingLayer]:
    return [layer for layer in cache.layers if isinstance(layer, GrowingLayer)]


def _taken(states: Tensor, at: Tensor, order: Tensor) -> Tensor:
    _, heads, _, width = states.shape
    return states[at].gather(2, order[:, None, :, None].expand(-1, heads, -1, width))


def _stacked(parts: Sequence[tuple[Tensor, Tensor, Tensor]], n: int, longest: int) -> Tensor:
    """`[n, heads, longest, width]` of states, the numbers of their rows that are wanted, and the places where they go."""
    _, heads, _, width = parts[0][0].shape
    out = parts[0][0].new_zeros(n, heads, longest, width)
    for states, indices, places in parts:
        length = min(states.shape[2], longest)
        out[places, :, longest - length :] = states[indices, :, states.shape[2] - length :]
    return out
