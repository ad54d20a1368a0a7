"""Keys and values of rows that leave a batch come back as they were, without padding and gaps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig
from transformers.cache_utils import Cache

from lightrl.rollout.decode.cache import growing_cache
from lightrl.rollout.decode.kept_rows import KeptRow, put_back, take_out

LAYERS, HEADS, WIDTH = 2, 3, 4
CONFIG = LlamaConfig(num_hidden_layers=LAYERS, hidden_size=HEADS * WIDTH, num_attention_heads=HEADS, vocab_size=8)


def filled(n: int, positions: int, seed: int) -> Cache:
    cache = growing_cache(CONFIG)
    states = torch.randn(LAYERS, 2, n, HEADS, positions, WIDTH, generator=torch.Generator().manual_seed(seed))
    for layer, (keys, values) in enumerate(states):
        cache.update(keys, values, layer)
    return cache


def states(cache: Any, row: int, where: torch.Tensor) -> torch.Tensor:
    return torch.stack([torch.stack([layer.keys[row][:, where], layer.values[row][:, where]]) for layer in cache.layers])


@settings(max_examples=40)
@given(st.data())
def test_rows_of_several_batches_come_back_without_their_gaps(data: st.DataObject) -> None:
    kept: list[KeptRow] = []
    expected: list[torch.Tensor] = []
    for batch in range(data.draw(st.integers(1, 3))):
        n, positions = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 7))
        cache = filled(n, positions, batch)
        mask = torch.tensor(data.draw(st.lists(st.lists(st.booleans(), min_size=positions, max_size=positions), min_size=n, max_size=n)))
        # a row has a token
        mask[:, 0] = True
        places = data.draw(st.lists(st.integers(0, n - 1), min_size=1, unique=True))
        lengths = [data.draw(st.integers(1, int(mask[place].sum()))) for place in places]
        kept += take_out(cache, places, mask, lengths)
        expected += [states(cache, place, mask[place].nonzero()[:length, 0]) for place, length in zip(places, lengths, strict=True)]
    order = data.draw(st.permutations(range(len(kept))))[: data.draw(st.integers(1, len(kept)))]
    again = growing_cache(CONFIG)
    where = put_back(again, [kept[i] for i in order])
    assert where.sum(1).tolist() == [kept[i].length for i in order]
    assert where[:, -1].all(), "padding stands on the left"
    for row, i in enumerate(order):
        assert torch.equal(states(again, row, where[row].nonzero()[:, 0]), expected[i])


@pytest.mark.parametrize("lengths", [[3, 3], [3, 1]])
def test_rows_without_padding_need_no_mask(lengths: list[int]) -> None:
    cache = filled(2, 3, 0)
    again = growing_cache(CONFIG)
    where = put_back(again, take_out(cache, [1, 0], None, lengths))
    for row, (place, length) in enumerate(zip([1, 0], lengths, strict=True)):
        assert torch.equal(states(again, row, where[row].nonzero()[:, 0]), states(cache, place, torch.arange(length)))
