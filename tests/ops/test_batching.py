import torch
from hypothesis import given
from hypothesis import strategies as st

from lightrl.ops.batching import filled_batches, micro_batches, minibatches, packed_batches, split_to


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 10), st.integers(0, 99))
def test_minibatches_cover_every_row_once_in_whole_groups(group: list[int], count: int, seed: int) -> None:
    numbers = torch.tensor(group, dtype=torch.long)
    groups = len(set(group))
    parts = minibatches(numbers, count, generator(seed))
    assert sorted(torch.cat(parts).tolist()) == list(range(len(group)))
    held = [set(numbers[part].tolist()) for part in parts]
    assert len(parts) == count
    assert sum(len(ids) for ids in held) == groups
    sizes = [len(ids) for ids in held]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)


def test_the_shuffle_follows_the_generator() -> None:
    group = torch.arange(20).repeat_interleave(2)
    draws = [[part.tolist() for part in minibatches(group, 4, generator(seed))] for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]


@given(st.lists(st.integers(0, 50), max_size=40), st.one_of(st.none(), st.integers(1, 200)))
def test_micro_batches_keep_to_the_budget_and_start_with_the_longest(lengths: list[int], budget: int | None) -> None:
    batches = micro_batches(torch.tensor(lengths, dtype=torch.long), budget)
    order = [i for batch in batches for i in batch.tolist()]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[i] for i in order] == sorted(lengths, reverse=True)
    if budget is None:
        assert len(batches) == (1 if lengths else 0)
        return
    for batch in batches:
        longest = max(lengths[i] for i in batch.tolist())
        assert len(batch) == 1 or len(batch) * longest <= budget


@given(st.lists(st.integers(1, 6), max_size=6), st.integers(0, 20))
def test_split_to_gives_the_agreed_number_with_the_same_rows(sizes: list[int], more: int) -> None:
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    batches = [torch.arange(start, start + size) for start, size in zip(starts, sizes, strict=True)]
    count = len(batches) + more
    out = split_to(batches, count)
    assert len(out) == count
    assert [i for batch in out for i in batch.tolist()] == list(range(sum(sizes)))
    empty = sum(len(batch) == 0 for batch in out)
    assert empty == max(0, count - sum(sizes))


@given(st.lists(st.integers(1, 30), max_size=40), st.integers(1, 60))
def test_filled_batches_cover_every_row_once_within_the_budget_and_waste_little(lengths: list[int], budget: int) -> None:
    numbers = torch.tensor(lengths, dtype=torch.long)
    batches = filled_batches(numbers, budget)
    assert sorted(i for batch in batches for i in batch.tolist()) == list(range(len(lengths)))
    filled = [int(numbers[batch].sum()) for batch in batches]
    assert all(total <= budget or len(batch) == 1 for total, batch in zip(filled, batches, strict=True))
    assert filled == sorted(filled, reverse=True)
    # two batches that would fit into one are never left apart
    smallest = sorted(filled)[:2]
    assert len(smallest) < 2 or sum(smallest) > budget
    assert len(filled_batches(numbers, None)) == min(len(lengths), 1)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40)), max_size=30), st.integers(20, 90))
def test_packed_batches_cover_every_row_once_and_keep_to_the_budget(rows: list[tuple[int, int]], budget: int) -> None:
    """Rows of a prompt of 9 tokens and of completions that differ in their first token."""
    ids = torch.zeros(len(rows), 49, dtype=torch.long)
    for i, (prompt, _) in enumerate(rows):
        ids[i, :9], ids[i, 9:] = prompt, 10 + i
    lengths = torch.tensor([9 + tokens for _, tokens in rows], dtype=torch.long)
    batches = packed_batches(ids, lengths, budget)
    assert sorted(i for batch in batches for i in batch.tolist()) == list(range(len(rows)))
    for batch in batches:
        prompts = {rows[i][0] for i in batch.tolist()}
        assert len(batch) == 1 or 9 * len(prompts) + sum(rows[i][1] for i in batch.tolist()) <= budget
    assert len(packed_batches(ids, lengths, None)) == min(len(rows), 1)


def test_completions_of_one_prompt_stand_together() -> None:
    ids = torch.tensor([[prompt] * 30 + [10 * row] * 10 for row in range(4) for prompt in (1, 2)])
    batches = packed_batches(ids, torch.full((8,), 40), 70)
    assert [sorted(batch.tolist()) for batch in batches] == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_a_prompt_longer_than_the_budget_is_still_shared() -> None:
    ids = torch.tensor([[1] * 300 + [row] * 10 for row in range(8)])
    # half of the budget is for the prompt, so three completions are added to it at a time
    assert [len(batch) for batch in packed_batches(ids, torch.full((8,), 310), 60)] == [3, 3, 2]


def test_passes_are_of_about_equal_size() -> None:
    ids = torch.tensor([[100 + row] * 136 for row in range(16)])
    assert [len(batch) for batch in packed_batches(ids, torch.full((16,), 136), 1024)] == [6, 6, 4]


def test_no_group_is_cut_for_passes_of_equal_size() -> None:
    ids = torch.tensor([[prompt] * 60 + [10 * row] * 20 for prompt, rows in ((1, 6), (2, 2)) for row in range(rows)])
    batches = packed_batches(ids, torch.full((8,), 80), 200)
    assert [sorted(batch.tolist()) for batch in batches] == [[0, 1, 2, 3, 4, 5], [6, 7]]
