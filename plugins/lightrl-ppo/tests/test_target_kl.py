"""PPO's adaptive penalty: the controller, and the penalty's value and gradient by hand."""

import pytest
import torch
from lightrl_ppo import PPOPenalty, TargetKL

from lightrl import KLPenalty


@pytest.mark.parametrize(("kl", "factor"), [(0.0, 0.5), (0.0066, 0.5), (0.007, 1.0), (0.01, 1.0), (0.015, 1.0), (0.016, 2.0), (9.0, 2.0)])
def test_the_papers_rule(kl: float, factor: float) -> None:
    assert TargetKL(target=0.01).factor(kl, rows=8) == factor


def test_the_algorithms_coefficient_moves_and_survives_a_restart() -> None:
    first, second = PPOPenalty(), PPOPenalty()
    for kl in (1.0, 1.0, 0.01, 0.0):
        first.kl.observe(kl, rows=4)
    assert first.kl.loss_coefficient == 2.0
    assert first.kl.unit == "token"
    second.load_state_dict(first.state_dict())
    assert second.kl.loss_coefficient == 2.0


@pytest.mark.parametrize(("estimator", "value", "gradient"), [("k1", -0.693147, -1.0), ("k2", 0.240227, 0.693147), ("k3", 0.306853, 1.0)])
def test_one_token_twice_as_likely_as_before(estimator: str, value: float, gradient: float) -> None:
    """KL(old || pi) on samples of old, p = .5, old = .25: -log 2; (log 2)^2 / 2; 2 - 1 - log 2."""
    new = torch.tensor([[0.5]]).log().requires_grad_()
    out = KLPenalty(estimator, loss_coefficient=1, against="old").penalty(new, torch.tensor([[0.25]]).log(), torch.zeros(1, 1))
    assert out.item() == pytest.approx(value, abs=1e-5)
    assert torch.autograd.grad(out.sum(), new)[0].item() == pytest.approx(gradient, abs=1e-5)


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_on_samples_of_the_old_policy_the_expected_gradient_is_that_of_the_kl(estimator: str) -> None:
    theta = torch.tensor([0.5, 0.0, -0.5], dtype=torch.float64, requires_grad=True)
    old = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64).log()
    logp = theta.log_softmax(0)
    exact = torch.autograd.grad((old.exp() * (old - logp)).sum(), theta, retain_graph=True)[0]
    penalty = KLPenalty(estimator, loss_coefficient=1, against="old").penalty(logp, old, logp - old)
    found = torch.autograd.grad((old.exp() * penalty).sum(), theta)[0]
    assert found.tolist() == pytest.approx(exact.tolist(), abs=1e-9)
    assert exact.tolist() == pytest.approx([0.30648, -0.192804, -0.113676], abs=1e-5)


@pytest.mark.parametrize("arguments", [{"target": 0}, {"tolerance": 0.5}, {"step": 1}])
def test_impossible_settings_are_refused(arguments: dict) -> None:
    with pytest.raises(ValueError, match=rf"TargetKL needs {next(iter(arguments))} "):
        TargetKL(**arguments)
