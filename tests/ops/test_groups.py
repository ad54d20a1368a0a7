import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightrl.ops.moments import group_statistics


def rows(values: list[float], valid: list[bool] | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(values), torch.tensor([True] * len(values) if valid is None else valid)


@pytest.mark.parametrize(("ddof", "std"), [(0, 3.559026), (1, 4.358899)])
def test_mean_and_deviation_by_hand(ddof: int, std: float) -> None:
    values, valid = rows([2, 10, 3, 7, 7])
    found = group_statistics(values, torch.tensor([4, 4, 4, 9, 9]), valid, ddof)
    assert found.mean.tolist() == [5, 5, 5, 7, 7]
    assert found.std[:3].tolist() == pytest.approx([std] * 3, abs=1e-6)
    assert found.std[3:].tolist() == [0, 0]
    assert found.count.tolist() == [3, 3, 3, 2, 2]
    assert found.zero_variance.tolist() == [False] * 3 + [True] * 2


def test_rows_that_do_not_count_leave_no_trace() -> None:
    values, valid = rows([2, torch.nan, 10, torch.inf, 3], [True, False, True, False, True])
    found = group_statistics(values, torch.zeros(5, dtype=torch.long), valid)
    assert found.mean.tolist() == [5] * 5
    assert found.std.tolist() == pytest.approx([4.358899] * 5, abs=1e-6)


def test_a_group_without_valid_rows_has_zero_variance_and_is_finite() -> None:
    values, valid = rows([torch.nan, torch.nan], [False, False])
    found = group_statistics(values, torch.tensor([1, 1]), valid)
    assert found.zero_variance.all()
    assert found.mean.tolist() == found.std.tolist() == found.count.tolist() == [0, 0]


def test_a_single_row_has_zero_variance() -> None:
    values, valid = rows([3.0])
    assert group_statistics(values, torch.tensor([0]), valid, ddof=0).zero_variance.item()


def test_no_rows_at_all() -> None:
    empty = torch.empty(0)
    assert len(group_statistics(empty, empty.long(), empty.bool()).mean) == 0


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("values", [[0.1] * 10, [0.1 + 0.2, 0.3], [0.7 + 0.1 + 0.2, 1.0, 0.2 + 0.1 + 0.7]])
def test_float_noise_is_no_signal_at_any_scale(values: list[float], scale: float) -> None:
    noisy = sum((torch.tensor([v * share * scale for v in values]) for share in (0.3, 0.6, 0.1)), torch.zeros(len(values)))
    found = group_statistics(noisy, torch.zeros(len(values), dtype=torch.long), torch.ones(len(values), dtype=torch.bool))
    assert found.zero_variance.all()
    assert (found.std == 0).all()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_real_difference_is_a_signal_at_any_scale(scale: float) -> None:
    values, valid = rows([scale, scale * 1.001])
    assert not group_statistics(values, torch.tensor([0, 0]), valid).zero_variance.any()


@given(st.lists(st.tuples(st.floats(-10, 10, width=32), st.integers(0, 3)), min_size=1, max_size=20), st.randoms())
def test_neither_the_order_of_rows_nor_the_numbers_of_groups_matter(pairs: list[tuple[float, int]], random) -> None:
    values = torch.tensor([v for v, _ in pairs], dtype=torch.float64)
    group = torch.tensor([g for _, g in pairs])
    valid = torch.ones(len(pairs), dtype=torch.bool)
    order = list(range(len(pairs)))
    random.shuffle(order)
    there = group_statistics(values, group, valid)
    here = group_statistics(values[order], 1000 - 7 * group[order], valid)
    assert torch.allclose(here.mean, there.mean[order])
    assert torch.allclose(here.std, there.std[order], atol=1e-7)
    assert torch.equal(here.zero_variance, there.zero_variance[order])
