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


ROOM, ROOM_OF_A_DEVICE = 64, 256
"""Least number of positions by which a full buffer is enlarged, if so many may come, on a CPU and elsewhere."""


class GrowingLayer(DynamicLayer):
    """A full-attention layer whose keys and values are the front part of buffers with room for more."""

    keys: Tensor
    values: Tensor
    buffers: tuple[Tensor, Tensor]
    """`[rows, heads, places, width]`, finite everywhere; keys and values are their first rows and places."""
    _room: int
    left: int = sys.maxsize
    """Positions that may still come: buffers have room for no more."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object) -> tuple[Tensor, Tensor]:
        if key_states.dtype != value_states.dtype:
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
        self.advance(new)
        self.keys[:, :, begin:], self.values[:, :, begin:] = key_states, value_states
        return self.keys, self.values

    def advance(self, new: int = 1) -> None:
        """Let keys and values have some positions more, which were written to the buffers behind them."""
        rows, _, length, _ = self.keys.shape
        keys, values = self.buffers
        self.keys, self.values = _front(keys, rows, length + new), _front(values, rows, length + new)
        self._room -= new
        self.left -= new

    def make_room(self) -> None:
        """Let there be room for one position more."""
        if not self._room:
            self._enlarge(1)

    def reorder_cache(self, beam_idx: Tensor) -> None:
        if self.get_seq_length() > 0:
            # copied once, to where there is room for more
            self._room = self._room_behind(self.keys.shape[-2])
            length = self.keys.shape[-2]
            self.buffers = _chosen(self.keys, beam_idx, self._room), _chosen(self.values, beam_idx, self._room)
            self.keys, self.values = (buffer[:, :, :length] for buffer in self.buffers)

    def keep(self, count: int, sources: Tensor, targets: Tensor) -> None:
        """Go on with the first rows, after some others have taken places there.

        Args:
            sources: `[m]` rows that move.
            targets: `[m]`, below `count`, where they go.
        """
        for states in (self.keys, self.values):
            states.index_copy_(0, targets, states.index_select(0, sources))
        self.keys, self.values = self.keys[:count], self.values[:count]

    def join(self, further: GrowingLayer, unread: int) -> None:
        """Put further rows below, so that the last positions of both are neighbours.

        Args:
            unread: first positions of this layer that are padding in all rows, and are dropped.
        """
        width = max(self.keys.shape[-2] - unread, further.keys.shape[-2])
        self.left = max(self.left, further.left)
        self._room = self._room_behind(width)
        pairs = ((self.keys, further.keys), (self.values, further.values))
        key_buffer, value_buffer = (_joined(own[:, :, unread:], other, width, self._room) for own, other in pairs)
        self.buffers = key_buffer, value_buffer
        self.keys, self.values = (buffer[:, :, :width] for buffer in self.buffers)

    def release(self) -> None:
        """Free keys and values."""
        del self.keys, self.values, self.buffers
        self.is_initialized = False

    def restore(self, keys: Tensor, values: Tensor) -> None:
        """Begin with these `[n, heads, length, width]` keys and values, computed before."""
        self.lazy_initialization(keys, values)
        self.buffers = self.keys, self.values = keys, values
        self._room = 0

    def _enlarge(self, least: int) -> None:
        self._room = max(least, self._room_behind(self.keys.shape[-2]))
        length = self.keys.shape[-2]
        self.buffers = F.pad(self.keys, (0, 0, 0, self._room)), F.pad(self.values, (0, 0, 0, self._room))
        self.keys, self.values = (buffer[:, :, :length] for buffer in self.buffers)

    def _room_behind(self, length: int) -> int:
        least = ROOM if self.keys.device.type == "cpu" else ROOM_OF_A_DEVICE
        return max(0, min(self.left, max(least, length // 2)))


def growing_cache(config: PreTrainedConfig, most: int = sys.maxsize) -> Cache:
    """The cache that transformers would choose, with full-attention layers that grow in place. `most`: positions that will be read."""
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


def _front(buffer: Tensor, rows: int, length: int) -> Tensor:
    """Its first rows and places, as `buffer[:rows, :, :length]` in half of the time."""
    _, heads, _, width = buffer.shape
    return buffer.as_strided((rows, heads, length, width), buffer.stride())


def _chosen(states: Tensor, rows: Tensor, room: int) -> Tensor:
    """A buffer that begins with some rows of the states."""
    _, heads, length, width = states.shape
    # what is read with weight 0 must be finite
    buffer = states.new_zeros(len(rows), heads, length + room, width)
    torch.index_select(states, 0, rows, out=buffer[:, :, :length])
    return buffer


def _joined(states: Tensor, further: Tensor, width: int, room: int) -> Tensor:
    """A buffer that begins with so many positions of the rows of both."""
    rows, heads, _, size = states.shape
    buffer = states.new_zeros(rows + len(further), heads, width + room, size)
    for part, place in ((states, buffer[:rows]), (further, buffer[rows:])):
        place[:, :, width - part.shape[-2] : width] = part
    return buffer
