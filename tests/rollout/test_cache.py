"""The growing cache holds what transformers' own cache holds."""

import gc
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightrl_workshop import rollouts_with
from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from lightrl import Policy, Prompt, TransformersEngine
from lightrl.rollout.decode.cache import ROOM, GrowingLayer, growing_cache, takes_padding
from lightrl.rollout.decode.incremental import IncrementalModel
from lightrl.rollout.decode.model_forward import ModelForward


@pytest.mark.parametrize("lengths", [[5, 1, 1], [70, 1, 40, 1], [1] * (2 * ROOM + 3)])
def test_updates_and_selections_are_those_of_the_dynamic_cache(policy: Policy, lengths: list[int]) -> None:
    ours, theirs = growing_cache(policy.model.config), DynamicCache(config=policy.model.config)
    rows = 3
    generator = torch.Generator().manual_seed(0)
    for i, length in enumerate(lengths):
        # the values of some models are narrower than the keys
        keys, values = (torch.randn(rows, 2, length, width, generator=generator) for width in (8, 5))
        for got, expected in zip(ours.update(keys, values, 0), theirs.update(keys, values, 0), strict=True):
            assert torch.equal(got, expected)
        assert ours.get_seq_length() == theirs.get_seq_length()
        if i % 7 == 1:
            chosen = torch.randint(rows, (5,), generator=generator)
            rows = 5
            ours.reorder_cache(chosen)
            theirs.reorder_cache(chosen)


@given(data=st.data())
def test_rows_that_move_keep_what_was_read_and_no_memory_is_asked_for(data: st.DataObject) -> None:
    ours, theirs = GrowingLayer(), DynamicLayer()
    generator = torch.Generator().manual_seed(0)
    rows = data.draw(st.integers(1, 6))
    ours.restore(*torch.randn(2, rows, 2, 3, 8, generator=generator))
    theirs.update(ours.keys, ours.values)
    step = torch.randn(2, rows, 2, 1, 8, generator=generator)
    ours.update(*step)
    theirs.update(*step)
    begin = ours.keys.data_ptr()
    while rows > 1:
        kept = torch.tensor(data.draw(st.lists(st.integers(0, rows - 1), min_size=1, max_size=rows - 1, unique=True)))
        moved = (kept != torch.arange(len(kept))).nonzero()[:, 0]
        ours.keep(len(kept), kept[moved], moved)
        theirs.reorder_cache(kept)
        rows = len(kept)
        step = torch.randn(2, rows, 2, 1, 8, generator=generator)
        for got, expected in zip(ours.update(*step), theirs.update(*step), strict=True):
            assert torch.equal(got, expected)
        assert ours.keys.data_ptr() == begin


def test_growing_copies_rarely(policy: Policy) -> None:
    cache = growing_cache(policy.model.config)
    places = set()
    for _ in range(1000):
        keys, _ = cache.update(torch.zeros(1, 2, 1, 8), torch.zeros(1, 2, 1, 8), 0)
        places.add(keys.data_ptr())
    assert len(places) < 12


def test_only_full_attention_layers_are_replaced(policy_of: Callable[..., Policy]) -> None:
    cache = growing_cache(policy_of("gemma3").model.config)
    assert [type(layer) for layer in cache.layers] == [DynamicSlidingWindowLayer, GrowingLayer]
    assert takes_padding(cache)
    assert not takes_padding(growing_cache(policy_of("lfm2").model.config))


@pytest.mark.parametrize("limits", [[3, 3], [2, 5]])
def test_keys_and_values_are_not_kept_beyond_the_rollout(policy: Policy, uneven: list[Prompt], limits: list[int]) -> None:
    loops = [rollouts_with(policy, TransformersEngine(limit, max_rows=3)) for limit in limits]
    for loop in loops:
        loop.rollout(uneven, 2)
    gc.collect()
    assert not [found for found in gc.get_objects() if type(found) is GrowingLayer and found.is_initialized]


@torch.no_grad()
def test_there_is_room_for_no_more_than_may_come(policy: Policy) -> None:
    model = policy.model.eval()
    batch = IncrementalModel(model, 96, lambda: ModelForward(model))
    batch.prefill([[2, 3, 4], [2, 3]], [2, 1], further=5)
    for _ in range(5):
        batch.step(torch.tensor([5, 6, 7]))
    for keys in batch.keys:
        rows, heads, length, width = keys.shape
        assert length == 8
        assert keys.untyped_storage().nbytes() == rows * heads * length * width * keys.element_size()
