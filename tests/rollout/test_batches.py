"""Batches cover every row of every context once, within the bound."""

from hypothesis import given
from hypothesis import strategies as st

from lightrl.rollout.decode.slices import batches


@given(
    contexts=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 6)), max_size=12),
    max_rows=st.one_of(st.none(), st.integers(1, 20)),
    padding=st.booleans(),
)
def test_every_row_once_and_never_too_many(contexts: list[tuple[int, int]], max_rows: int | None, padding: bool) -> None:
    lengths, counts = [length for length, _ in contexts], [count for _, count in contexts]
    found = list(batches(lengths, counts, max_rows, padding))
    rows = [(share.context, row) for batch in found for share in batch for row in share.rows]
    assert sorted(rows) == [(context, row) for context, count in enumerate(counts) for row in range(count)]
    for batch in found:
        assert max_rows is None or sum(len(share.rows) for share in batch) <= max_rows
        assert padding or len({lengths[share.context] for share in batch}) == 1
        for share in batch:
            assert share.rows == range(counts[share.context]) or (max_rows is not None and max_rows < counts[share.context])
    if max_rows is None and padding and lengths:
        assert len(found) == 1


def test_contexts_of_similar_length_meet() -> None:
    found = batches([9, 1, 8, 2], [3, 3, 3, 3], 6, padding=True)
    assert [[share.context for share in batch] for batch in found] == [[1, 3], [2, 0]]
