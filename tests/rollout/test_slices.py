"""Slices: who is decoded together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lightrl import Request, Sampling
from lightrl.rollout.decode.slices import Slice, Slices

ENDS = frozenset({1})


@st.composite
def first_turns(draw: st.DrawFn) -> list[Request]:
    """Groups of requests that share a context, drawn in one of two ways."""
    requests = list[Request]()
    for length, count, sampling in draw(
        st.lists(st.tuples(st.integers(1, 5), st.integers(1, 4), st.sampled_from([Sampling(), Sampling(9)])))
    ):
        context = list(range(length))
        for _ in range(count):
            number = len(requests)
            requests.append(Request(number, context, 5, sampling, ENDS, number, episode=number, open=draw(st.booleans())))
    return requests


def ids(slices: list[Slice]) -> list[list[int]]:
    """The numbers of the requests in each slice."""
    return [[request.id for request in part.requests] for part in slices]


def next_turn(request: Request) -> Request:
    """The episode goes on, with a context of its own."""
    context = [*request.context, *range(request.id % 3 + 1)]
    return Request(request.id, context, 5, request.sampling, ENDS, request.seed + 100, request.episode, open=True)


@given(first_turns(), st.one_of(st.none(), st.integers(1, 5)))
def test_every_request_is_in_one_slice_with_others_of_its_settings(requests: list[Request], most: int | None) -> None:
    slices = Slices(most).cut(requests)
    assert sorted(number for part in ids(slices) for number in part) == list(range(len(requests)))
    assert all(len(part.requests) <= (most or len(requests)) for part in slices)
    assert all(len({request.sampling for request in part.requests}) == 1 for part in slices)
    assert len({part.number for part in slices}) == len(slices)


@given(first_turns(), st.integers(1, 5))
def test_a_slice_that_is_cut_elsewhere_stays_as_it_is(requests: list[Request], most: int) -> None:
    for part in Slices(most).cut(requests):
        assert ids(Slices(most).cut(part.requests)) == ids([part])


@given(first_turns(), st.integers(1, 5))
def test_episodes_that_began_together_stay_together(requests: list[Request], most: int) -> None:
    slices = Slices(most)
    began = {request.episode: part.number for part in slices.cut(requests) for request in part.requests if request.open}
    further = slices.cut([next_turn(request) for request in requests if request.open])
    assert {request.episode: part.number for part in further for request in part.requests} == began
    assert len(further) == len(set(began.values()))
    lengths = [[len(request.context) for request in part.requests] for part in further]
    assert lengths == [sorted(of) for of in lengths]


def test_an_episode_that_was_forgotten_begins_anew() -> None:
    slices = Slices(4)
    [first] = slices.cut([Request(1, [2], 5, Sampling(), ENDS, 0, episode=1, open=True)])
    again = [Request(1, [2, 3], 5, Sampling(), ENDS, 0, episode=1, open=True)]
    assert [part.number for part in slices.cut(again)] == [first.number]
    slices.forget([1])
    assert [part.number for part in slices.cut(again)] != [first.number]
    number = slices.cut(again)[0].number
    slices.clear()
    assert slices.cut(again)[0].number != number
