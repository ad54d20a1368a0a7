import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightrl.ops.moments import masked_sum, row_mean, row_sum, whiten
from lightrl.rows import last_position

MASK = torch.tensor([[True, False, True], [False, False, False]])
VALUES = torch.tensor([[1.0, torch.nan, 3.0], [torch.inf, torch.nan, -torch.inf]])


def test_masked_positions_are_selected_out_not_multiplied() -> None:
    assert masked_sum(VALUES, MASK).item() == 4
    assert row_sum(VALUES, MASK).tolist() == [4, 0]
    assert row_mean(VALUES, MASK).tolist() == [2, 0]


@pytest.mark.parametrize("reduction", [masked_sum, lambda v, m: row_sum(v, m).sum(), lambda v, m: row_mean(v, m).sum()])
def test_no_gradient_reaches_a_masked_position(reduction) -> None:
    values = VALUES.clone().requires_grad_()
    reduction(values, MASK).backward()
    assert (values.grad[~MASK] == 0).all()
    assert (values.grad[MASK] > 0).all()


def test_last_position_is_minus_one_for_a_row_without_any() -> None:
    assert last_position(MASK).tolist() == [2, -1]
    assert last_position(torch.zeros(2, 0, dtype=torch.bool)).tolist() == [-1, -1]


@given(st.lists(st.floats(-100, 100, width=32), min_size=2, max_size=30), st.integers(0, 1))
def test_whitened_values_have_zero_mean_and_unit_variance(numbers: list[float], ddof: int) -> None:
    values = torch.tensor([*numbers, torch.nan], dtype=torch.float64)
    mask = ~values.isnan()
    out = whiten(values, mask, ddof=ddof, eps=0.0)
    assert out[-1] == 0
    assert out[mask].mean().item() == pytest.approx(0, abs=1e-6)
    if max(numbers) - min(numbers) > 1e-3:
        assert out[mask].var(correction=ddof).item() == pytest.approx(1, abs=1e-6)


def test_whitening_can_keep_the_mean() -> None:
    values, mask = torch.tensor([1.0, 2.0, 6.0]), torch.ones(3, dtype=torch.bool)
    assert torch.allclose(whiten(values, mask, shift_mean=False), whiten(values, mask) + 3)


@pytest.mark.parametrize(
    ("values", "mask", "kept_mean"),
    [
        ([5.0, 1.0], [False, False], [0.0, 0.0]),
        ([5.0, 1.0], [True, False], [5.0, 0.0]),
        ([0.1, 0.1], [True, True], [0.1, 0.1]),
    ],
    ids=["none selected", "one selected", "all equal"],
)
def test_nothing_to_whiten(values: list[float], mask: list[bool], kept_mean: list[float]) -> None:
    x, m = torch.tensor(values), torch.tensor(mask)
    assert whiten(x, m).tolist() == [0, 0]
    assert whiten(x, m, shift_mean=False).tolist() == pytest.approx(kept_mean)


def test_whitening_ignores_how_long_the_padding_is() -> None:
    x, m = torch.tensor([[1.0, 2.0], [4.0, 9.0]]), torch.tensor([[True, True], [True, False]])
    wide = whiten(torch.nn.functional.pad(x, (0, 3), value=torch.nan), torch.nn.functional.pad(m, (0, 3)))
    assert torch.equal(wide[:, :2], whiten(x, m))
    assert (wide[:, 2:] == 0).all()
