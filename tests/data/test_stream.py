import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightrl.data.stream import PromptStream

SIZES, DRAWS, WORLDS = st.integers(1, 40), st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(1, 5)


def world(size: int | None, ranks: int, **kwargs: bool | int) -> list[PromptStream]:
    return [PromptStream(size, rank=rank, world_size=ranks, **kwargs) for rank in range(ranks)]


def drawn(streams: list[PromptStream], sizes: list[int]) -> list[int]:
    """The global order: every block over all ranks, one after the other."""
    return [index for n in sizes for stream in streams for index in stream.draw(n)]


@given(SIZES, DRAWS, WORLDS, st.booleans(), st.integers(0, 3))
def test_every_prompt_once_per_epoch_whatever_the_world(size: int, draws: list[int], ranks: int, shuffle: bool, seed: int) -> None:
    order = drawn(world(size, ranks, shuffle=shuffle, seed=seed), draws)
    assert order == PromptStream(size, shuffle, seed).draw(len(order))
    for start in range(0, len(order), size):
        epoch = order[start : start + size]
        assert max(Counter(epoch).values()) == 1
        assert len(epoch) < size or set(epoch) == set(range(size))


@given(SIZES, DRAWS, DRAWS, WORLDS, WORLDS)
def test_a_resume_goes_on_anywhere_even_with_another_world(size: int, before: list[int], after: list[int], ranks: int, later: int) -> None:
    streams = world(size, ranks)
    drawn(streams, before)
    states = [stream.state_dict() for stream in streams]
    assert all(state == states[0] for state in states)
    resumed = world(size, later)
    for stream in resumed:
        stream.load_state_dict(states[0])
    rest = drawn(resumed, after)
    whole = PromptStream(size).draw(sum(before) * ranks + len(rest))
    assert whole[sum(before) * ranks :] == rest


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    stream = PromptStream(50)
    epochs = [tuple(stream.draw(50)) for _ in range(3)]
    assert len(set(epochs)) == 3
    assert tuple(PromptStream(50, seed=1).draw(50)) not in epochs
    assert stream.state_dict() == {"epoch": 3, "position": 0}
    assert PromptStream(3, shuffle=False).draw(7) == [0, 1, 2, 0, 1, 2, 0]


@given(SIZES, st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1, max_size=8), st.booleans())
def test_ranks_may_draw_different_numbers_of_one_order(size: int, blocks: list[list[int]], shuffle: bool) -> None:
    streams = world(size, 3, shuffle=shuffle)
    order = []
    for counts in blocks:
        slices = [stream.draw(counts) for stream in streams]
        assert [len(part) for part in slices] == counts
        order += [index for part in slices for index in part]
    assert order == PromptStream(size, shuffle).draw(len(order))
    assert len({json.dumps(stream.state_dict()) for stream in streams}) == 1


@given(DRAWS, WORLDS)
def test_an_endless_source_just_counts(draws: list[int], ranks: int) -> None:
    order = drawn(world(None, ranks), draws)
    assert order == list(range(len(order)))


def test_impossible_streams_are_refused() -> None:
    with pytest.raises(ValueError, match="prompt"):
        PromptStream(0)
    with pytest.raises(ValueError, match="0 and 1"):
        PromptStream(4, rank=2, world_size=2)
    with pytest.raises(ValueError, match="-1"):
        PromptStream(4).draw(-1)
    with pytest.raises(ValueError, match=r"2 .* 1 ranks"):
        PromptStream(4).draw([1, 2])
