"""Slices cover every sample of every prompt once, within the bound."""

from hypothesis import given
from hypothesis import strategies as st

from lightrl.rollout.slices import slices


@given(
    lengths=st.lists(st.integers(1, 5), max_size=12),
    n=st.integers(1, 6),
    max_rows=st.one_of(st.none(), st.integers(1, 20)),
    padding=st.booleans(),
)
def test_every_row_once_and_never_too_many(lengths: list[int], n: int, max_rows: int | None, padding: bool) -> None:
    parts = list(slices(lengths, n, max_rows, padding))
    rows = [(prompt, sample) for part in parts for prompt in part.prompts for sample in part.samples]
    assert sorted(rows) == [(prompt, sample) for prompt in range(len(lengths)) for sample in range(n)]
    for part in parts:
        assert max_rows is None or len(part.prompts) * len(part.samples) <= max_rows
        assert padding or len({lengths[i] for i in part.prompts}) == 1
        assert part.samples == range(n) or (max_rows is not None and max_rows < n)
    if max_rows is None and padding and lengths:
        assert len(parts) == 1


def test_prompts_of_similar_length_meet() -> None:
    assert [part.prompts for part in slices([9, 1, 8, 2], 3, 6, padding=True)] == [[1, 3], [2, 0]]
