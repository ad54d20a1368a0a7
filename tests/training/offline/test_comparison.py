"""Comparisons by hand: how unlikely they were, and how sure the scores are."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightrl.training.evaluating.metrics import right_order
from lightrl.training.offline.reward_modeling import bradley_terry, confidence, confidence_bin


@pytest.mark.parametrize(
    ("better", "worse", "margin", "loss", "gradient"),
    [
        (0.0, 0.0, 0.0, 0.693147, -0.5),  # ln 2
        (1.3, 0.5, 0.2, 0.437488, -0.354344),  # log(1 + exp(-0.6)) and -1 / (1 + exp(0.6))
        (1.3, 0.5, 0.0, 0.371101, -0.310026),
        (-1.0, 1.0, 0.0, 2.126928, -0.880797),
        (0.5, 0.0, 1.0, 0.974077, -0.622459),  # the right order, by less than the margin
    ],
)
def test_bradley_terry_by_hand(better: float, worse: float, margin: float, loss: float, gradient: float) -> None:
    r, s = (torch.tensor([x], dtype=torch.float64, requires_grad=True) for x in (better, worse))
    found = bradley_terry(r, s, torch.tensor([margin], dtype=torch.float64))
    found.sum().backward()
    assert found.item() == pytest.approx(loss, abs=1e-6)
    assert r.grad.item() == pytest.approx(gradient, abs=1e-6)
    assert s.grad.item() == pytest.approx(-gradient, abs=1e-6)


def test_scores_that_are_far_apart_have_a_finite_loss_and_gradient() -> None:
    r = torch.tensor([1e4, -1e4], requires_grad=True)
    found = bradley_terry(r, torch.zeros(2))
    found.sum().backward()
    assert found.tolist() == [0.0, 1e4]
    assert r.grad.tolist() == [0.0, -1.0]


@given(st.floats(-30, 30))
def test_losses_are_likelihoods_and_confidence_is_that_of_the_higher_score(difference: float) -> None:
    lead = torch.tensor([difference], dtype=torch.float64)
    likelihood = (-bradley_terry(lead, torch.zeros(1, dtype=torch.float64))).exp()
    other = (-bradley_terry(-lead, torch.zeros(1, dtype=torch.float64))).exp()
    assert float(likelihood + other) == pytest.approx(1)
    assert float(confidence(lead)) == pytest.approx(max(float(likelihood), float(other)))
    part = int(confidence_bin(lead, 10))
    assert 0.5 + part * 0.05 - 1e-9 <= float(confidence(lead)) <= 0.5 + (part + 1) * 0.05 + 1e-9


def test_bins_and_ties() -> None:
    lead = torch.tensor([0.0, 0.1, -0.1, math.log(3), 50.0, -50.0])
    assert right_order(lead).tolist() == [0.5, 1, 0, 1, 1, 0]
    assert confidence_bin(lead, 10).tolist() == [0, 0, 0, 5, 9, 9]
