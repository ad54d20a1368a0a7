"""Rows that are decoded token by token: their keys and values, and the weights that they are multiplied by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lightrl_bitwise.attention import Memory, attended
from lightrl_bitwise.layers import multiplied, rounded_weight
from lightrl_bitwise.sums import Rows
from lightrl_bitwise.trunk import WholeRows, hidden_states, longest_row


class ReadyWeights:
    """The rounded weights of linear modules, each made at its first use; for as long as the weights stay as they are."""

    def __init__(self) -> None:
        self._ready: dict[int, Tensor] = {}

    def multiply(self, module: Any, states: Tensor) -> Tensor:
        """See `lightrl_bitwise.trunk.Product`."""
        ready = self._ready.get(id(module))
        if ready is None:
            ready = self._ready[id(module)] = rounded_weight(module.weight)
        return multiplied(states, ready, module.bias)


class DecodedBatch:
    """Rows of one batch: contexts are read once, and then each row grows by a token at a time."""

    def __init__(self, model: Any, weights: ReadyWeights) -> None:
        self._model, self._weights = model, weights
        self._longest = longest_row(model)
        self._layers: list[tuple[Tensor, Tensor, Tensor]] = []
        """Of each block `[n, k, S, D]` keys and values and the `[n, k, S, 1]` sizes of values, zeros where nothing was read."""

    def read(self, contexts: Sequence[Sequence[int]], repeats: Sequence[int], further: int) -> Tensor:
        """`[n, V]` logits behind contexts, each for so many neighbouring rows, to which at most `further` tokens are added."""
        lengths = [len(context) for context in contexts]
        ids = torch.tensor([token for context in contexts for token in context])
        whole = _RememberedRows(lengths, self._longest, self._weights)
        hidden = hidden_states(self._model, ids, whole.positions, whole.multiply, whole.attend)
        rows = torch.arange(len(lengths)).repeat_interleave(torch.tensor(repeats))
        for memory in whole.memories:
            parts = (memory.keys, memory.values.whole, memory.values.size)
            keys, values, sizes = (torch.nn.functional.pad(part[rows], (0, 0, 0, further)) for part in parts)
            self._layers.append((keys, values, sizes))
        self._positions = torch.tensor(lengths)[rows]
        last = torch.tensor(lengths).cumsum(0) - 1
        return self._logits(hidden[last])[rows]

    def step(self, tokens: Tensor, growing: Tensor) -> Tensor:
        """`[n, V]` logits behind `[n]` tokens; rows that do not grow, `[n]` bool, give any."""
        hidden = hidden_states(self._model, tokens, self._positions, self._weights.multiply, self._attend)
        self._positions = self._positions + growing
        return self._logits(hidden)

    def keep(self, rows: Tensor) -> None:
        """Go on with some rows only."""
        self._layers = [(keys[rows], values[rows], sizes[rows]) for keys, values, sizes in self._layers]
        self._positions = self._positions[rows]

    def _attend(self, number: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        keys, values, sizes = self._layers[number]
        new = Memory.of(key[:, :, None], value[:, :, None], self._longest)
        rows = torch.arange(len(query))
        for part, states in ((keys, new.keys), (values, new.values.whole), (sizes, new.values.size)):
            part[rows, :, self._positions] = states[:, :, 0]
        width = int(self._positions.max()) + 1
        visible = (torch.arange(width) <= self._positions[:, None])[:, None, None]
        memory = Memory(keys[:, :, :width], Rows(values[:, :, :width], sizes[:, :, :width], new.values.bits))
        return attended(query.reshape(len(query), key.shape[1], -1, query.shape[-1]), memory, visible, scale).flatten(1, 2)

    def _logits(self, hidden: Tensor) -> Tensor:
        return self._weights.multiply(self._model.get_output_embeddings(), hidden)


class _RememberedRows(WholeRows):
    """Whole rows whose keys and values are kept."""

    def __init__(self, lengths: Sequence[int], longest: int, weights: ReadyWeights) -> None:
        super().__init__(lengths, longest)
        self._weights = weights
        self.memories: list[Memory] = []

    def multiply(self, module: Any, states: Tensor) -> Tensor:
        return self._weights.multiply(module, states)

    def attend(self, number: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        self.memories.append(Memory.of(self.padded(key[:, :, None]), self.padded(value[:, :, None]), self._longest))
        return super().attend(number, query, key, value, scale)
