"""KL estimators on one sample, and their expected gradients on a softmax over three outcomes, by hand."""

import pytest
import torch

from lightrl.parts.kl import AdaptiveKL, KLPenalty, k3

THETA = torch.tensor([0.5, 0.0, -0.5], dtype=torch.float64)
OTHER = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64).log()
REVERSE, FORWARD = [0.352992, -0.220978, -0.132013], [0.30648, -0.192804, -0.113676]


@pytest.mark.parametrize(
    ("p", "reference", "values"),
    [(0.5, 0.25, [0.693147, 0.240227, 0.193147]), (0.25, 0.5, [-0.693147, 0.240227, 0.306853])],
)
def test_one_sample(p: float, reference: float, values: list[float]) -> None:
    mine, other = torch.tensor([[p]]).log(), torch.tensor([[reference]]).log()
    found = [KLPenalty(name, loss_coefficient=1).penalty(mine, other, 0 * mine).item() for name in ("k1", "k2", "k3")]
    assert found == pytest.approx(values, abs=1e-5)


@pytest.mark.parametrize(
    ("estimator", "value"),
    [
        ("k1", 0.232218),
        ("k2", 0.276217),
        ("k3", 0.232218),
        ("k3_straight_through", 0.232218),
        ("k1_straight_through", 0.232218),
        ("abs", 0.708993),
    ],
)
def test_expected_value(estimator: str, value: float) -> None:
    logp = THETA.log_softmax(0)
    penalty = KLPenalty(estimator, loss_coefficient=1).penalty(logp, OTHER, 0 * logp)
    assert (logp.exp() * penalty).sum().item() == pytest.approx(value, abs=1e-5)


def expected_gradient(penalty: KLPenalty) -> list[float]:
    """Of the mean over samples of the frozen policy, as a loss sees it."""
    theta = THETA.clone().requires_grad_()
    logp = theta.log_softmax(0)
    frozen = logp.detach()
    loss = (frozen.exp() * penalty.penalty(logp, OTHER, logp - frozen)).sum()
    (gradient,) = torch.autograd.grad(loss, theta)
    return gradient.tolist()


@pytest.mark.parametrize(
    ("estimator", "gradient"),
    [
        ("k1", [0, 0, 0]),
        ("k2", REVERSE),
        ("k3", FORWARD),
        ("k3_straight_through", REVERSE),
        ("k1_straight_through", REVERSE),
        ("abs", [0.499916, -0.311177, -0.188739]),
    ],
)
def test_expected_gradient(estimator: str, gradient: list[float]) -> None:
    assert expected_gradient(KLPenalty(estimator, loss_coefficient=1)) == pytest.approx(gradient, abs=1e-5)


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3", "k1_straight_through", "k3_straight_through"])
def test_corrected_for_off_policy_samples_every_estimator_descends_the_kl(estimator: str) -> None:
    assert expected_gradient(KLPenalty(estimator, loss_coefficient=1, off_policy=True)) == pytest.approx(REVERSE, abs=1e-5)


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3", "k1_straight_through", "k3_straight_through"])
def test_so_it_does_on_samples_of_an_older_policy(estimator: str) -> None:
    theta, old = THETA.clone().requires_grad_(), torch.tensor([0.1, 0.3, -0.2], dtype=torch.float64).log_softmax(0)
    logp = theta.log_softmax(0)
    penalty = KLPenalty(estimator, loss_coefficient=1, off_policy=True).penalty(logp, OTHER, logp - old)
    (gradient,) = torch.autograd.grad((old.exp() * penalty).sum(), theta)
    assert gradient.tolist() == pytest.approx(REVERSE, abs=1e-5)


def test_exact_kl_and_its_gradient() -> None:
    theta = THETA.clone().requires_grad_()
    logp = theta.log_softmax(0)
    reverse, forward = (logp.exp() * (logp - OTHER)).sum(), (OTHER.exp() * (OTHER - logp)).sum()
    assert [reverse.item(), forward.item()] == pytest.approx([0.232218, 0.200617], abs=1e-5)
    assert torch.autograd.grad(reverse, theta, retain_graph=True)[0].tolist() == pytest.approx(REVERSE, abs=1e-5)
    assert torch.autograd.grad(forward, theta)[0].tolist() == pytest.approx(FORWARD, abs=1e-5)


def test_approximate_kl_of_an_update() -> None:
    log_ratio = torch.tensor([0.1, -0.1], dtype=torch.float64)
    assert k3(-log_ratio, torch.zeros(2)).mean().item() == pytest.approx(0.005004, abs=1e-6)


def test_adaptive_coefficient() -> None:
    kl = KLPenalty("k1", reward_coefficient=0.2, controller=AdaptiveKL(target=6, horizon=10_000))
    kl.observe(kl=9.0, rows=256)
    assert kl.reward_coefficient == pytest.approx(0.201024)
