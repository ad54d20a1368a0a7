"""Keys and values in buffers that stay where they are while rows come and go and positions are added."""

from __future__ import annotations

from torch import Tensor

from lightrl.rollout.decode.cache import ROOM, GrowingLayer, joined

POSITIONS_AT_ONCE = 256
"""Positions by which buffers grow."""


class FixedLayer(GrowingLayer):
    """A layer whose buffers have more rows and positions than are used, so that they move seldom: a recorded step finds them again."""

    whole: tuple[Tensor, ...] = ()
    """The buffers of keys and values, `[rows, heads, positions, width]` each and finite; their first rows and positions are in use."""

    @classmethod
    def instead_of(cls, layer: GrowingLayer) -> FixedLayer:
        """One with the same keys and values."""
        fixed = cls()
        fixed.restore(layer.keys, layer.values)
        fixed._put(layer.keys, layer.values)
        return fixed

    def reorder_cache(self, beam_idx: Tensor) -> None:
        self._put(self.keys[beam_idx], self.values[beam_idx])

    def keep(self, count: int, sources: Tensor, targets: Tensor) -> None:
        super().keep(count, sources, targets)
        if self.whole[0].shape[0] >= 2 * rows_for(count):
            self._put(self.keys, self.values)

    def join(self, further: GrowingLayer, unread: int) -> None:
        width = max(self.keys.shape[-2] - unread, further.keys.shape[-2])
        pairs = ((self.keys, further.keys), (self.values, further.values))
        keys, values = (joined(own[:, :, unread:], other, width, 0)[1] for own, other in pairs)
        self._put(keys, values)

    def release(self) -> None:
        super().release()
        self.whole = ()

    def make_room(self) -> None:
        """Let there be room for one position more."""
        if not self._room:
            self._enlarge(1)

    def advance(self) -> None:
        """Let keys and values have one position more, which was written to the buffers behind them."""
        end = self.keys.shape[-2] + 1
        self.keys, self.values = self._key_buffer[:, :, :end], self._value_buffer[:, :, :end]
        self._room -= 1

    def _enlarge(self, least: int) -> None:
        self._put(self.keys, self.values, least)

    def _put(self, keys: Tensor, values: Tensor, further: int = 1) -> None:
        """Go on with these, which lie elsewhere, and room for some positions more."""
        rows, _, length, _ = keys.shape
        buffers = self.whole or (None, None)
        self.whole = tuple(_holding(buffer, states, further) for buffer, states in zip(buffers, (keys, values), strict=True))
        self._key_buffer, self._value_buffer = (buffer[:rows] for buffer in self.whole)
        self.keys, self.values = self._key_buffer[:, :, :length], self._value_buffer[:, :, :length]
        self._room = self._key_buffer.shape[-2] - length


def _holding(buffer: Tensor | None, states: Tensor, further: int) -> Tensor:
    """The buffer, or a new one where it is too small or twice as large as needed, with the states in front."""
    rows, heads, length, width = states.shape
    size = rows_for(rows), positions_for(length + max(further, ROOM))
    if buffer is None or not (rows <= buffer.shape[0] < 2 * size[0] and length + further <= buffer.shape[2] < 2 * size[1]):
        buffer = states.new_zeros(size[0], heads, size[1], width)
    buffer[:rows, :, :length] = states
    # it is read with weight 0, which leaves nothing of it only if it is finite
    buffer[:, :, length:] = 0
    return buffer


def rows_for(rows: int) -> int:
    """The next of 1, 2, 3, 4, 6, 8, 12, 16, 24 and so on."""
    power = 1 << (rows - 1).bit_length()
    return 3 * power // 4 if rows <= 3 * power // 4 else power


def positions_for(positions: int) -> int:
    """The next multiple of `POSITIONS_AT_ONCE`."""
    return -(-positions // POSITIONS_AT_ONCE) * POSITIONS_AT_ONCE
