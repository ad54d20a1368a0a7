"""Mixtures: shares by weight, schedules, epochs of each part, ranks and resumes."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightrl_curriculum import LinearShare, Mixture

from lightrl import Addition, DigitSorting, PromptData, Reversal
from lightrl.data.stream import MixedStream
from lightrl.data.tasks import EpisodeSeeds

SOURCES = {"add": lambda n: Addition(2, n), "turn": lambda n: Reversal(3, n), "sort": lambda n: DigitSorting(3, n)}
WEIGHTS = st.one_of(st.floats(0.1, 5.0), st.builds(LinearShare, st.floats(0.1, 5), st.floats(0.1, 5), st.integers(1, 60)))
BLOCKS = st.lists(st.integers(0, 9), min_size=1, max_size=10)


def mixture(sizes: list[int], weights: list[Any] | None) -> Mixture:
    names = list(SOURCES)[: len(sizes)]
    sources = {name: SOURCES[name](size) for name, size in zip(names, sizes, strict=True)}
    return Mixture(sources, None if weights is None else dict(zip(names, weights, strict=True)))


def drawn(streams: list[MixedStream], blocks: list[int]) -> list[tuple[int, int]]:
    """The global order: every block over all ranks, one after the other."""
    return [index for n in blocks for stream in streams for index in stream.draw_in_epochs(n)]


@given(st.lists(st.integers(1, 20), min_size=1, max_size=3), st.data(), BLOCKS, BLOCKS, st.integers(1, 4), st.integers(1, 4))
def test_shares_hold_and_neither_ranks_nor_a_resume_change_the_order(
    sizes: list[int], data: st.DataObject, before: list[int], after: list[int], ranks: int, later: int
) -> None:
    source = mixture(sizes, [data.draw(WEIGHTS) for _ in sizes])
    streams = [MixedStream(source, True, 0, rank, ranks) for rank in range(ranks)]
    order = drawn(streams, before)
    state = json.loads(json.dumps(streams[0].state_dict()))
    assert all(stream.state_dict() == state for stream in streams)
    resumed = [MixedStream(source, True, 0, rank, later) for rank in range(later)]
    for stream in resumed:
        stream.load_state_dict(state)
    order += drawn(resumed, after)
    assert order == MixedStream(source, True, 0).draw_in_epochs(len(order))
    owed = Counter[str]()
    for n, (_, index) in enumerate(order):
        owed.update(source.shares(n))
        owed[source.part(index)] -= 1
        assert all(abs(credit) < len(sizes) for credit in owed.values())
    for start, size in zip([0, *source._ends], sizes, strict=False):
        within = [found for found in order if start <= found[1] < start + size]
        assert [epoch for epoch, _ in within] == [i // size for i in range(len(within))]
        assert len(set(within)) == len(within), "each prompt once in each epoch of its part"


def test_a_schedule_moves_from_one_source_to_the_other() -> None:
    source = mixture([50, 50], [LinearShare(1, 0, 40), LinearShare(0, 1, 40)])
    names = [source.part(index) for _, index in MixedStream(source, True, 0).draw_in_epochs(60)]
    assert Counter(names[:10])["add"] == 9
    assert Counter(names[15:25])["add"] == 5
    assert set(names[41:]) == {"turn"}
    assert source.shares(10) == {"add": 0.75, "turn": 0.25}


def test_equal_parts_are_in_orders_of_their_own() -> None:
    source = Mixture({"a": DigitSorting(2, 50), "b": DigitSorting(2, 50)}, {"a": 1, "b": 1})
    order = [index for _, index in MixedStream(source, True, 0).draw_in_epochs(100)]
    assert [index for index in order if index < 50] != [index - 50 for index in order if index >= 50]


def test_prompts_say_where_they_are_from_and_a_split_keeps_the_parts() -> None:
    source = mixture([30, 60], [1, 1])
    data = PromptData(source, validation_size=9)
    found = data.draw(40)
    assert Counter(prompt.columns["source"] for prompt in found) == {"add": 20, "turn": 20}
    assert all(prompt.id.startswith(f"{prompt.columns['source']}/") for prompt in found)
    assert source.place(30) == "turn: prompt 0 of Reversal"
    assert len({prompt.id for prompt in found}) == 40


def test_a_run_goes_on_with_its_mixture_and_with_other_weights_of_it_but_not_without() -> None:
    whole, begun = PromptData(mixture([30, 60], [1, 2])), PromptData(mixture([30, 60], [1, 2]))
    order = [prompt.id for prompt in whole.draw(40)]
    assert [prompt.id for prompt in begun.draw(25)] == order[:25]
    rest, other, plain = (PromptData(mixture([30, 60], weights)) for weights in ([1, 2], [1, 0], None))
    for data in (rest, other):
        data.load_state_dict(begun.state_dict())
    assert [prompt.id for prompt in rest.draw(15)] == order[25:]
    assert {prompt.columns["source"] for prompt in other.draw(8)[2:]} == {"add"}
    plain.load_state_dict(begun.state_dict())
    with pytest.raises(ValueError, match=r"its data\.parts_by_weight was \['add', 'turn'\] and is now \[\]"):
        plain.draw(1)


def test_without_weights_every_prompt_comes_once_per_epoch() -> None:
    data = PromptData(mixture([7, 20], None))
    assert len({prompt.id for prompt in data.draw(27)}) == 27


@pytest.mark.parametrize(
    ("sources", "more", "words"),
    [
        ({}, {}, r"sources is empty"),
        ({"a": Addition(1, 5)}, {"weights": {"b": 1.0}}, r"weights has \['b'\], and the sources are \['a'\]"),
        ({"a": Addition(1, 5)}, {"weights": {"a": 0.0}}, r"weights are all 0 after 0 prompts"),
        ({"a": EpisodeSeeds(5, {"source": 1})}, {}, r"prompt 0 of EpisodeSeeds has a column 'source'.*Mixture\.column"),
    ],
)
def test_what_cannot_be_mixed_is_refused(sources: dict[str, Any], more: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Mixture(sources, **more).prompt(0)


def test_a_part_of_which_nothing_is_left_is_named() -> None:
    """All of its prompts are held out."""
    data = PromptData(Mixture({"a": Addition(1, 5), "b": Reversal(2, 5)}, {"a": 1, "b": 1}), validation=Reversal(2, 5))
    with pytest.raises(ValueError, match="no prompt of 'b' is left to train on, and the mixture has a weight for it"):
        data.draw(1)
    # `check` and `fit` measure before the first rollout
    with pytest.raises(ValueError, match="no prompt of 'b' is left to train on, and the mixture has a weight for it"):
        data.measure(lambda prompt: [0], None)
