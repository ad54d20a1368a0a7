import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightrl_workshop.experience import experience

from lightrl.parts.advantage import GAE, Advantage, GroupCentered, GroupNormalized, LeaveOneOut

GROUPED = [GroupCentered(), GroupNormalized(), GroupNormalized(ddof=0, eps=0), GroupNormalized(std="batch"), LeaveOneOut()]

rows_of_groups = st.lists(st.tuples(st.floats(-5, 5, width=16), st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=16)
grouped = pytest.mark.parametrize("part", GROUPED, ids=repr)


def make(rows: list[tuple[float, int, int]], **more):
    rewards, group, lengths = (list(column) for column in zip(*rows, strict=True))
    return experience(rewards, lengths=lengths, group=group, **more)


@grouped
@given(rows=rows_of_groups)
def test_constant_over_a_row_and_zero_elsewhere(part: Advantage, rows) -> None:
    batch = make(rows)
    out = part.compute(batch).advantages
    assert out.isfinite().all()
    assert (out[~batch.response_mask] == 0).all()
    for i in range(len(batch)):
        assert len(out[i, batch.response_mask[i]].unique()) <= 1


@grouped
@given(rows=rows_of_groups)
def test_advantages_of_a_group_sum_to_zero(part: Advantage, rows) -> None:
    batch = make([(reward, group, 2) for reward, group, _ in rows])
    per_row = part.compute(batch).advantages[:, 2].double()
    sums = torch.zeros(4, dtype=torch.float64).index_add(0, batch.group, per_row)
    assert sums.abs().max() < 1e-3


@grouped
@given(rows=rows_of_groups, random=st.randoms())
def test_neither_the_order_of_rows_nor_group_numbers_nor_padding_matter(part: Advantage, rows, random) -> None:
    order = list(range(len(rows)))
    random.shuffle(order)
    batch = make(rows)
    moved = batch.select(order).padded(batch.input_ids.shape[1] + 3)
    moved.group = 77 - 5 * moved.group
    here, there = part.compute(moved).advantages, part.compute(batch).advantages
    assert torch.allclose(here[:, : there.shape[1]], there[order], atol=1e-5)
    assert (here[:, there.shape[1] :] == 0).all()


@grouped
@given(rows=rows_of_groups)
def test_more_reward_never_means_less_advantage(part: Advantage, rows) -> None:
    batch = make([(reward, group, 1) for reward, group, _ in rows])
    out = part.compute(batch).advantages[:, 2]
    for number in batch.group.unique():
        here = batch.group == number
        order = batch.rewards[here].argsort()
        assert (out[here][order].diff() >= -1e-6).all()


@grouped
@given(rows=rows_of_groups)
def test_a_row_that_cannot_be_scored_leaves_no_trace(part: Advantage, rows) -> None:
    without = make(rows)
    extra = [(torch.nan, group, 3) for _, group, _ in rows]
    batch = make(rows + extra, scorable=[True] * len(rows) + [False] * len(extra))
    out = part.compute(batch).advantages
    assert (out[len(rows) :] == 0).all()
    expected = part.compute(without).advantages
    shared = expected.shape[1]
    assert torch.allclose(out[: len(rows), :shared], expected, atol=1e-6)


@grouped
@pytest.mark.parametrize("rewards", [[0.1] * 10, [0.0] * 3, [1e9] * 4, [-7.3, -7.3], [0.1 + 0.2, 0.3]])
def test_equal_rewards_give_exactly_zero(part: Advantage, rewards: list[float]) -> None:
    assert (part.compute(experience(rewards)).advantages == 0).all()


@grouped
def test_a_group_of_one_row_and_a_group_with_one_scorable_row_give_zero(part: Advantage) -> None:
    batch = experience([3.0, 5.0, torch.inf, 1.0, 2.0], group=[0, 1, 1, 2, 2], scorable=[True, True, False, True, True])
    out = part.compute(batch).advantages
    assert (out[:3] == 0).all()
    assert (out[3:, 2:] != 0).all()


@grouped
def test_no_rows(part: Advantage) -> None:
    assert part.compute(experience([])).advantages.shape[0] == 0


def test_a_row_without_a_response_stays_in_the_statistics() -> None:
    out = GroupCentered().compute(experience([0.0, 3.0], lengths=[0, 1])).advantages
    assert out[1, 2].item() == 1.5
    assert (out[0] == 0).all()


def test_normalised_advantages_do_not_depend_on_the_scale_of_rewards() -> None:
    small, large = (GroupNormalized(eps=0).compute(experience([scale * r for r in (1, 2, 4)])).advantages for scale in (0.01, 100))
    assert torch.allclose(small, large, atol=1e-4)


@pytest.mark.parametrize(("ddof", "eps"), [(2, 0.0), (-1, 0.0), (1, -1e-6)])
def test_impossible_deviations_are_refused(ddof: int, eps: float) -> None:
    with pytest.raises(ValueError, match=f"GroupNormalized needs .*({ddof=}|{eps=})"):
        GroupNormalized(ddof=ddof, eps=eps)


def with_values(rewards: list[float], lengths: list[int], scorable: list[bool] | None = None, padding: int = 0):
    batch = experience(rewards, lengths=lengths, scorable=scorable, padding=padding)
    batch.values = torch.where(batch.response_mask, 0.1 * torch.arange(batch.input_ids.shape[1]), torch.nan)
    return batch


@pytest.mark.parametrize("whitened", [True, False])
def test_gae_ignores_what_is_masked_and_what_cannot_be_scored(whitened: bool) -> None:
    alone = with_values([1.0, 0.0], [3, 2])
    joined = with_values([1.0, 0.0, torch.nan], [3, 2, 3], [True, True, False], padding=2)
    expected, found = (GAE(whitened=whitened).compute(batch) for batch in (alone, joined))
    for mine, other in ((found.advantages, expected.advantages), (found.returns, expected.returns)):
        assert torch.allclose(mine[:2, :5], other, atol=1e-6)
        assert (mine[2] == 0).all()
        assert (mine[:, 5:] == 0).all()


def test_gae_skips_tokens_that_a_tool_wrote() -> None:
    batch = with_values([1.0], [3])
    gap = with_values([1.0], [4])
    gap.response_mask[0, 3] = False
    gap.values = torch.tensor([[0, 0, 0.2, torch.nan, 0.3, 0.4]])
    batch.values = torch.tensor([[0, 0, 0.2, 0.3, 0.4]])
    direct, skipped = (GAE(gamma=0.9, whitened=False).compute(b).advantages for b in (batch, gap))
    assert skipped[0, [2, 4, 5]].tolist() == pytest.approx(direct[0, 2:].tolist())
    assert skipped[0, 3] == 0


def test_gae_says_what_is_missing() -> None:
    with pytest.raises(ValueError, match="critic: ValueHead"):
        GAE().compute(experience([1.0]))
    with pytest.raises(ValueError, match=r"gamma=1\.1"):
        GAE(gamma=1.1)
    assert GAE().needs == {"values"}
