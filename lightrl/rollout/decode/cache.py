"""Keys and values that grow in place, where transformers' own cache copies them at every token."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from lightrl.versions import layers_without_keys

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


ROOM = 32
"""Least number of positions by which a full buffer is enlarged, if so many may come."""


class GrowingLayer(DynamicLayer):
    """A full-attention layer whose keys and values are the front part of buffers with room for more."""

    keys: Tensor
    values: Tensor
    _key_buffer: Tensor
    _value_buffer: Tensor
    _room: int
    left: int = sys.maxsize
    """Positions that may still come: buffers have room for no more."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object) -> tuple[Tensor, Tensor]:
        # under autocast float32 angles have widened what the layers gave
        key_states = key_states.to(value_states.dtype)
        if not self.is_initialized:
            # a prefill is followed by `reorder_cache`, which makes room
            self._room = 0
            super().update(key_states, value_states)
            self.left -= key_states.shape[-2]
            return self.keys, self.values
        begin, new = self.keys.shape[-2], key_states.shape[-2]
        if new > self._room:
            self._enlarge(new)
        self.keys = _written(self._key_buffer, key_states, begin)
        self.values = _written(self._value_buffer, value_states, begin)
        self._room -= new
        self.left -= new
        return self.keys, self.values

    def reorder_cache(self, beam_idx: Tensor) -> None:
        if self.get_seq_length() > 0:
            # copied once, to where there is room for more
            self._room = self._room_behind(self.keys.shape[-2])
            self._key_buffer, self.keys = _chosen(self.keys, beam_idx, self._room)
            self._value_buffer, self.values = _chosen(self.values, beam_idx, self._room)

    def keep(self, count: int, sources: Tensor, targets: Tensor) -> None:
        """Go on with the first rows, after some others have taken places there.

        Args:
            sources: `[m]` rows that move.
            targets: `[m]`, below `count`, where they go.
        """
        for states in (self.keys, self.values):
            states.index_copy_(0, targets, states.index_select(0, sources))
        self._key_buffer, self.keys = self._key_buffer[:count], self.keys[:count]
        self._value_buffer, self.values = self._value_buffer[:count], self.values[:count]

    def join(self, further: GrowingLayer, unread: int) -> None:
        """Put further rows below, so that the last positions of both are neighbours.

        Args:
            unread: first positions of this layer that are padding in all rows, and are dropped.
        """
        width = max(self.keys.shape[-2] - unread, further.keys.shape[-2])
        self.left = max(self.left, further.left)
        self._room = self._room_behind(width)
        self._key_buffer, self.keys = _joined(self.keys[:, :, unread:], further.keys, width, self._room)
        self._value_buffer, self.values = _joined(self.values[:, :, unread:], further.values, width, self._room)

    def release(self) -> None:
        """Free keys and values."""
        del self.keys, self.values, self._key_buffer, self._value_buffer
        self.is_initialized = False

    def restore(self, keys: Tensor, values: Tensor) -> None:
        """Begin with these `[n, heads, length, width]` keys and values, computed before."""
        self.lazy_initialization(keys, values)
        self._key_buffer, self._value_buffer = self.keys, self.values = keys, values
        self._room = 0

    def _enlarge(self, least: int) -> None:
        self._room = max(least, self._room_behind(self.keys.shape[-2]))
        self._key_buffer, self._value_buffer = (F.pad(states, (0, 0, 0, self._room)) for states in (self.keys, self.values))

    def _room_behind(self, length: int) -> int:
        return max(0, min(self.left, max(ROOM, length // 2)))


def growing_cache(config: PreTrainedConfig, most: int = sys.maxsize) -> Cache:
    """The cache that transformers would choose, with full-attention layers that grow in place.

    Args:
        most: positions that will be read.
    """
    cache = DynamicCache(config=config)
    cache.layers = [GrowingLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    for layer in cache.layers:
        if isinstance(layer, GrowingLayer):
            layer.left = most
    return cache


def takes_padding(cache: Cache) -> bool:
    """Prompts of different lengths can share it: no layer carries a state over the padding or counts positions in blocks."""
    return all(type(layer) in (GrowingLayer, DynamicSlidingWindowLayer, *layers_without_keys()) for layer in cache.layers)


def takes_gaps(cache: Cache) -> bool:
    """Rows can be taken out and put together again with gaps in them: no layer counts the positions between two tokens."""
    return all(type(layer) in (GrowingLayer, *layers_without_keys()) for layer in cache.layers)


def _chosen(states: Tensor, rows: Tensor, room: int) -> tuple[Tensor, Tensor]:
    """A buffer that begins with some rows of the states, and that part of it."""
    _, heads, length, width = states.shape
    buffer = states.new_empty(len(rows), heads, length + room, width)
    front = buffer[:, :, :length]
    torch.index_select(states, 0, rows, out=front)
    return buffer, front


def _joined(states: Tensor, further: Tensor, width: int, room: int) -> tuple[Tensor, Tensor]:
    """A buffer that begins with so many positions of the rows of both, and that part of it."""
    rows, heads, _, size = states.shape
    buffer = states.new_empty(rows + len(further), heads, width + room, size)
    front = buffer[:, :, :width]
    for part, place in ((states, front[:rows]), (further, front[rows:])):
        padding = width - part.shape[-2]
        # it must be finite: its weight is 0
        place[:, :, :padding] = 0
        place[:, :, padding:] = part
    return buffer, front


def _written(buffer: Tensor, states: Tensor, begin: int) -> Tensor:
    end = begin + states.shape[-2]
    buffer[:, :, begin:end] = states
    return buffer[:, :, :end]
