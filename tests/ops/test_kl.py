from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightrl.parts.kl import ESTIMATORS, LIMIT, k1, k2, k3, within_limit

logs = st.floats(-30, 0)


@given(logs, logs)
def test_k2_and_k3_are_never_negative(p: float, q: float) -> None:
    a, b = torch.tensor([p], dtype=torch.float64), torch.tensor([q], dtype=torch.float64)
    assert k2(a, b).item() >= 0
    assert k3(a, b).item() >= -1e-15 * abs(p - q)
    assert k1(a, b).item() == p - q


@pytest.mark.parametrize("name", ESTIMATORS)
def test_equal_policies_have_no_distance_and_nothing_overflows(name: str) -> None:
    estimator = ESTIMATORS[name]
    same = torch.tensor([-1.0, -20.0])
    assert estimator(same, same).tolist() == [0, 0]
    assert estimator(torch.tensor([-500.0, 0.0]), torch.tensor([0.0, -500.0])).isfinite().all()


def test_k3_is_clamped_at_the_limit() -> None:
    far = k3(torch.tensor([-100.0]), torch.tensor([0.0]))
    assert far.item() == pytest.approx(torch.tensor(LIMIT).exp().item() - 1 - LIMIT)


@pytest.mark.parametrize(("name", "own"), [("k1_straight_through", k1), ("k3_straight_through", k3)])
def test_straight_through_has_its_own_value_and_the_gradient_of_k2(
    name: str, own: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
) -> None:
    p = torch.tensor([-1.0, -0.3], dtype=torch.float64, requires_grad=True)
    q = torch.tensor([-0.5, -2.0], dtype=torch.float64)
    out = ESTIMATORS[name](p, q)
    assert torch.allclose(out, own(p, q))
    (gradient,) = torch.autograd.grad(out.sum(), p)
    assert torch.allclose(gradient, (p - q).detach())


@pytest.mark.parametrize("d", [1e-2, 1e-3, 1e-4, -1e-4, -1e-3])
def test_k3_of_close_policies_is_not_lost_to_rounding(d: float) -> None:
    near = k3(torch.tensor([d], dtype=torch.float32), torch.tensor([0.0]))
    assert near.item() == pytest.approx(d * d / 2, rel=0.01)


def test_a_log_ratio_held_within_the_limit_keeps_its_gradient_where_it_is_finite() -> None:
    wide = torch.tensor([-500.0, -20.0, 0.3, 20.5, torch.inf, -torch.inf, torch.nan], requires_grad=True)
    held = within_limit(wide)
    assert held[:-1].tolist() == [-20.0, -20.0, wide[2].item(), 20.0, 20.0, -20.0]
    assert held[-1].isnan()
    (gradient,) = torch.autograd.grad(held.sum(), wide)
    assert gradient.tolist() == [1, 1, 1, 1, 0, 0, 0]
