"""Rows in one row without padding: what stands where, and what sees what."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention

from lightrl.ops.packing import pack
from lightrl.ops.prefix_tree import prefix_tree
from lightrl.ops.tree_attention import tree_attention, tree_blocks

Texts = list[list[int]]
ROWS = st.lists(st.lists(st.integers(0, 2), min_size=0, max_size=7), min_size=1, max_size=8).filter(any)


def padded(rows: Texts) -> tuple[Tensor, list[int]]:
    ids = torch.full((len(rows), max(map(len, rows))), 9)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row, dtype=torch.long)
    return ids, list(map(len, rows))


def test_a_prompt_stands_once_in_front_of_its_completions() -> None:
    packed = pack(*padded([[1, 2, 3, 4], [7, 8], [1, 2, 3, 5, 6], [1, 2, 3]]), least=2)
    assert packed.input_ids.tolist() == [[1, 2, 3, 4, 5, 6, 7, 8]]
    assert packed.position_ids.tolist() == [[0, 1, 2, 3, 3, 4, 0, 1]]
    assert packed.places.tolist() == [[0, 1, 2, 3, 0], [6, 7, 0, 0, 0], [0, 1, 2, 4, 5], [0, 1, 2, 0, 0]]
    # nothing behind place 6 has the prompt in front of it, and nothing else has the fourth token
    assert packed.ends.tolist() == [6, 6, 6, 4, 6, 6, 8, 8]


def test_beginnings_of_several_lengths_stand_in_front_of_each_other() -> None:
    tree = prefix_tree(*padded([[1, 1, 2, 2, 3], [1, 1, 2, 2, 4], [1, 1, 5]]), least=2)
    assert [(s.start, s.stop, s.parent) for s in tree.segments] == [(0, 2, -1), (2, 4, 0), (4, 5, 1), (4, 5, 1), (2, 3, 0)]
    assert [tree.path(row) for row in range(3)] == [[2, 1, 0], [3, 1, 0], [4, 0]]


def test_what_saves_too_little_is_repeated() -> None:
    assert len(pack(*padded([[1, 2, 3], [1, 2, 4]]), least=3)) == 6
    assert len(pack(*padded([[1, 2, 3], [1, 2, 4]]), least=2)) == 4


@given(ROWS, st.integers(1, 4))
def test_every_row_is_there_and_sees_itself_alone(rows: Texts, least: int) -> None:
    packed = pack(*padded(rows), least=least)
    place = torch.arange(len(packed))
    seen = (place <= place[:, None]) & (place[:, None] < packed.ends)
    for i, row in enumerate(rows):
        mine = packed.places[i, : len(row)]
        assert packed.input_ids[0, mine].tolist() == row
        assert packed.position_ids[0, mine].tolist() == list(range(len(row)))
        for position, here in enumerate(mine):
            assert seen[here].nonzero()[:, 0].tolist() == mine[: position + 1].tolist()
    assert len(packed) <= sum(map(len, rows))


@given(ROWS, st.integers(1, 4))
def test_the_blocks_hold_every_token_once(rows: Texts, least: int) -> None:
    packed = pack(*padded(rows), least=least)
    queries = torch.cat([block.queries.flatten() for block in packed.blocks])
    assert queries[packed.inverse].tolist() == list(range(len(packed)))


@pytest.mark.parametrize("window", [None, 3])
def test_attention_is_that_of_each_row_alone(window: int | None) -> None:
    rows = [[1, 2, 3, 4, 5, 6], [1, 2, 3, 4], [1, 2, 3, 7, 7], [8], [5, 6, 7, 8, 9]]
    packed = pack(*padded(rows), least=2)
    random = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, heads, len(packed), 4, generator=random, dtype=torch.float64) for heads in (4, 2, 2))
    found = tree_attention(query, key, value, packed, 0.3, window)[0]
    flex = flex_attention(query, key, value, block_mask=tree_blocks(packed, window), scale=0.3, enable_gqa=True)
    assert isinstance(flex, Tensor)
    for i, row in enumerate(rows):
        mine = packed.places[i, : len(row)]
        position = torch.arange(len(row))
        back = position[:, None] - position
        mask = (back >= 0) & (back < (window or 99))
        alone = scaled_dot_product_attention(
            query[:, :, mine], *(t[:, :, mine].repeat_interleave(2, 1) for t in (key, value)), attn_mask=mask, scale=0.3
        )
        assert torch.allclose(found[mine], alone[0].transpose(0, 1), rtol=0, atol=1e-12)
        assert torch.allclose(flex[0][:, mine], alone[0], rtol=0, atol=1e-12)


@given(ROWS, st.integers(1, 4), st.sampled_from([None, 2]), st.integers(1, 4))
def test_a_kernel_skips_only_blocks_in_which_nobody_sees_anybody(rows: Texts, least: int, window: int | None, size: int) -> None:
    packed = pack(*padded(rows), least=least)
    place = torch.arange(-(-len(packed) // size) * size)
    inside = place < len(packed)
    known = place.clamp(max=len(packed) - 1)
    seen = (place <= place[:, None]) & (place[:, None] < packed.ends[known]) & inside & inside[:, None]
    if window is not None:
        positions = packed.position_ids[0][known]
        seen &= positions[:, None] - positions < window
    real = (inside & inside[:, None]).unflatten(0, (-1, size)).unflatten(2, (-1, size))
    blocks = seen.unflatten(0, (-1, size)).unflatten(2, (-1, size))
    mask = tree_blocks(packed, window, size)
    full = torch.zeros(len(blocks), len(blocks), dtype=torch.bool)
    for line in range(len(blocks)):
        full[line, mask.full_kv_indices[0, 0, line, : int(mask.full_kv_num_blocks[0, 0, line])].long()] = True
    assert not (blocks.any(1).any(2) & ~mask.to_dense()[0, 0].bool()).any()
    assert (blocks | ~real).all(1).all(2)[full].all()
