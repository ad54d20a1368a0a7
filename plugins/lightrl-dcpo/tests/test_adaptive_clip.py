"""Bounds, values and gradients of dynamic adaptive clipping, by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightrl_dcpo import DynamicAdaptiveClip

BOUNDS = [
    (0.9, 0.768742, 1.187184),
    (0.01, 0.5, 5.0),
    (1.0, 0.8, 1.17082),
    (1 / 1.2, 0.740832, 1.2),
    (0.64, 0.5, 1.25),
    (0.1, 0.5, 2.0),
    (0.002, 0.5, 10.0),
]


@pytest.mark.parametrize(("q", "low", "high"), BOUNDS)
def test_bounds(q: float, low: float, high: float) -> None:
    lowest, highest = DynamicAdaptiveClip().bounds(torch.tensor(q).log())
    assert lowest.item() == pytest.approx(low, abs=1e-5)
    assert highest.item() == pytest.approx(high, abs=1e-5)


def test_bounds_in_probabilities_are_wider_for_rare_tokens() -> None:
    """A fixed 0.2 would give [.72, 1.08] and [.008, .012]."""
    q = torch.tensor([0.9, 0.01], dtype=torch.float64)
    lowest, highest = DynamicAdaptiveClip().bounds(q.log())
    assert (lowest * q).tolist() == pytest.approx([0.691868, 0.005], abs=1e-5)
    assert (highest * q).tolist() == pytest.approx([1.068466, 0.05], abs=1e-5)


def test_the_cap_is_met_at_a_probability_of_two_in_a_thousand() -> None:
    clip = DynamicAdaptiveClip()
    at = 0.8 / (19**2 - 1)
    assert at == pytest.approx(0.002222, abs=1e-6)
    assert clip.bounds(torch.tensor(at * 1.01).log())[1] < 10
    assert clip.bounds(torch.tensor(at * 0.99).log())[1] == 10
    assert clip.bounds(torch.tensor(-200.0)) == (torch.tensor(0.5), torch.tensor(10.0))


def test_the_default_epsilons_meet_a_fixed_clip_of_a_fifth() -> None:
    """(q, r) = (1 / 1.2, 1.2) and (1, 0.8) lie on the bounds."""
    high, low = ((2 * 1.2 - 1) ** 2 - 1) / 4 / 1.2, (1 - (2 * 0.8 - 1) ** 2) / 4
    assert (DynamicAdaptiveClip().low, DynamicAdaptiveClip().high) == pytest.approx((low, high))


def objective(q: float, ratio: float, advantage: float) -> tuple[float, float, bool, bool]:
    log_ratio = torch.tensor([[ratio]], dtype=torch.float64).log().requires_grad_()
    one = torch.ones(1, 1, dtype=torch.float64)
    out = DynamicAdaptiveClip().surrogate(log_ratio, advantage * one, math.log(q) * one, one.bool())
    (gradient,) = torch.autograd.grad(out.loss.sum(), log_ratio)
    return -out.loss.item(), -gradient.item(), out.clipped_low.item(), out.clipped_high.item()


@pytest.mark.parametrize(
    ("q", "ratio", "advantage", "value", "gradient", "clipped"),
    [
        (0.9, 1.15, 2.0, 2.3, 2.3, ""),
        (0.9, 1.3, 2.0, 2.374368, 0.0, "high"),
        (0.1, 1.3, 2.0, 2.6, 2.6, ""),  # a fixed 0.28 would have clipped it
        (0.1, 2.5, 2.0, 4.0, 0.0, "high"),
        (0.002, 9.0, 1.0, 9.0, 9.0, ""),
        (0.002, 11.0, 1.0, 10.0, 0.0, "high"),
        (0.9, 0.7, -2.0, -1.537484, 0.0, "low"),
        (0.1, 0.7, -2.0, -1.4, -1.4, ""),
        (0.1, 0.4, -2.0, -1.0, 0.0, "low"),
        (0.9, 1.5, -2.0, -3.0, -3.0, ""),  # wrong direction: full gradient up to the cap
        (0.01, 9.0, -2.0, -18.0, -18.0, ""),
        (0.01, 12.0, -2.0, -20.0, 0.0, "high"),
        (0.5, 0.1, 1.0, 0.1, 0.1, ""),
    ],
)
def test_objective(q: float, ratio: float, advantage: float, value: float, gradient: float, clipped: str) -> None:
    found_value, found_gradient, low, high = objective(q, ratio, advantage)
    assert found_value == pytest.approx(value, abs=1e-5)
    assert found_gradient == pytest.approx(gradient, abs=1e-5)
    assert (low, high) == (clipped == "low", clipped == "high")


@given(st.floats(1e-6, 1.0), st.floats(0.01, 30.0), st.floats(-3, 3))
def test_what_is_clipped_has_no_gradient_and_nothing_else_loses_it(q: float, ratio: float, advantage: float) -> None:
    _, gradient, low, high = objective(q, ratio, advantage)
    assert not (low and high)
    assert gradient == pytest.approx(0.0 if low or high else ratio * advantage, rel=1e-6)


def test_the_statistics_are_those_of_the_paper() -> None:
    ratio, advantages = torch.tensor([[1.3, 1.3, 12.0]]).log(), torch.tensor([[1.0, 1.0, -1.0]])
    old = torch.tensor([[0.9, 0.1, 0.01]]).log()
    out = DynamicAdaptiveClip().surrogate(ratio, advantages, old, torch.ones(1, 3, dtype=torch.bool))
    assert out.shares["token_clipping_ratio"].tolist() == [[1, 0, 1]]
    assert out.shares["clip_ratio/capped"].tolist() == [[0, 0, 1]]


@pytest.mark.parametrize("settings", [{"low": 0.25}, {"low": -0.1}, {"high": 0.0}, {"cap": 1.0}])
def test_impossible_bounds_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=rf"DynamicAdaptiveClip needs .*{next(iter(settings))} "):
        DynamicAdaptiveClip(**settings)
