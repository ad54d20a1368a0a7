"""The floor of dual-clip PPO, numbers by hand."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightrl_ppo import DualClip

from lightrl import ClipScheme, DecoupledClip, SymmetricClip


def objective_and_gradient(clip: ClipScheme, advantage: float, ratio: float) -> tuple[float, float]:
    log_ratio = torch.tensor([[ratio]], dtype=torch.float64).log().requires_grad_()
    mask = torch.ones(1, 1, dtype=torch.bool)
    out = clip.surrogate(log_ratio, torch.tensor([[advantage]], dtype=torch.float64), torch.zeros(1, 1), mask)
    (gradient,) = torch.autograd.grad(-out.loss.sum(), log_ratio)
    return -out.loss.item(), gradient.item()


@pytest.mark.parametrize(
    ("advantage", "ratio", "objective", "gradient"),
    [
        (-1.0, 5.0, -3.0, 0.0),
        (-1.0, 2.9, -2.9, -2.9),
        (-1.0, 0.7, -0.8, 0.0),
        (-2.1, 1.3, -2.73, -2.73),
        (1.0, 5.0, 1.2, 0.0),
        (1.0, 0.5, 0.5, 0.5),
    ],
)
def test_by_hand(advantage: float, ratio: float, objective: float, gradient: float) -> None:
    assert objective_and_gradient(DualClip(cap=3.0), advantage, ratio) == pytest.approx((objective, gradient), abs=1e-6)


def test_plain_ppo_has_no_floor() -> None:
    assert objective_and_gradient(SymmetricClip(0.2), -1.0, 5.0) == pytest.approx((-5.0, -5.0))


@given(st.floats(-3, 3), st.floats(0.05, 9))
def test_below_the_cap_it_is_the_decoupled_clip(advantage: float, ratio: float) -> None:
    ours, plain = (objective_and_gradient(c, advantage, ratio) for c in (DualClip(0.2, 0.28, cap=10), DecoupledClip(0.2, 0.28)))
    assert ours == pytest.approx(plain)


def test_it_reports_what_the_floor_took() -> None:
    ratio = torch.tensor([[5.0, 5.0, 1.0]]).log()
    out = DualClip().surrogate(ratio, torch.tensor([[-1.0, 1.0, -1.0]]), 0 * ratio, torch.ones(1, 3, dtype=torch.bool))
    assert out.shares["clip_ratio/dual"].tolist() == [[1, 0, 0]]
    assert out.clipped_high.tolist() == [[True, True, False]]


def test_a_cap_inside_the_clip_is_refused() -> None:
    with pytest.raises(ValueError, match="cap"):
        DualClip(cap=1)
