"""Rollout corrections, the moving reference and the entropy, by hand."""

import pytest
import torch
from lightrl_workshop.experience import experience
from torch import nn

from lightrl.ops.logprobs import chosen_logprobs
from lightrl.parts.correction import MaskedImportance, RolloutCorrection, TruncatedImportance
from lightrl.parts.loss_term import EntropyBonus
from lightrl.parts.moving_reference import MovingAverageReference
from lightrl.parts.output import Entropy
from lightrl.types import PolicyOutput

DIFFERENCE = torch.tensor([[0.1, 0.9, -1.2]])


@pytest.mark.parametrize(
    ("correction", "weights"),
    [
        (TruncatedImportance(cap=1e9), [1.105171, 2.459603, 0.301194]),
        (TruncatedImportance(cap=2), [1.105171, 2, 0.301194]),
        (TruncatedImportance(cap=2, low=0.5), [1.105171, 2, 0.5]),
        (MaskedImportance(0.5, 2), [1.105171, 0, 0]),
        (TruncatedImportance(cap=1e9, level="sequence"), [0.818731] * 3),
        (MaskedImportance(0.5, 2, level="sequence"), [0.818731] * 3),
    ],
    ids=repr,
)
def test_weights(correction: RolloutCorrection, weights: list[float]) -> None:
    found = correction.weights(DIFFERENCE, torch.zeros(1, 3), torch.ones(1, 3, dtype=torch.bool)).value
    assert found[0].tolist() == pytest.approx(weights, abs=1e-5)


def test_small_differences_add_up_over_a_long_row() -> None:
    """100 tokens that differ by .012 each: 3.32, more than a cap of 3."""
    difference, mask = torch.full((1, 100), 0.012), torch.ones(1, 100, dtype=torch.bool)
    whole = TruncatedImportance(cap=1e9, level="sequence").weights(difference, 0 * difference, mask).value
    assert whole[0, 0].item() == pytest.approx(3.320117, abs=1e-5)
    assert (MaskedImportance(0.5, 3.0, level="sequence").weights(difference, 0 * difference, mask).value == 0).all()


@pytest.mark.parametrize(("mixture", "expected"), [(0.6, 1.6), (0.005, 1.005)])
def test_moving_average(mixture: float, expected: float) -> None:
    policy = nn.Linear(1, 1, bias=False)
    nn.init.constant_(policy.weight, 1.0)
    reference = MovingAverageReference(mixture=mixture, every=1)
    reference.build(policy)
    nn.init.constant_(policy.weight, 2.0)
    reference.after_step(policy, 1)
    with reference.anchor(policy) as anchor:
        assert anchor.weight.item() == pytest.approx(expected)


def test_entropy_and_its_gradient() -> None:
    logits = torch.tensor([[0.5, 0.0, -0.5]], dtype=torch.float64, requires_grad=True)
    _, entropy = chosen_logprobs(logits, torch.eye(3, dtype=torch.float64), None, torch.tensor([0]), outputs=[Entropy().compute])
    assert entropy.item() == pytest.approx(1.020191, abs=1e-5)
    loss = EntropyBonus().loss(experience([0.0]), PolicyOutput(torch.zeros(1, 1), {"entropy": entropy[None]}))
    loss.sum().backward()
    assert (-logits.grad[0]).tolist() == pytest.approx([-0.172164, 0.049175, 0.122988], abs=1e-5)
