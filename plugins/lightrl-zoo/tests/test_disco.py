"""DisCO and DRPO: weights by hand, the gradient of the objective as the papers have it, and the budget of KL."""

from __future__ import annotations

import math

import pytest
import torch
from lightrl_workshop import hand_made_experience
from lightrl_zoo import DRPO, DisCO, DiscriminativeLoss, KLBudget
from torch import Tensor

from lightrl import GroupSampler, Minibatch, PolicyOutput, TensorLoss

LENGTHS = [2, 4, 1, 3, 2, 2, 4, 1]
REWARDS = torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0])
GROUP = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2])
MASK = torch.arange(4) < torch.tensor(LENGTHS)[:, None]
"""The second prompt has wrong completions alone, the third right ones alone."""


def old_and_new(seed: int = 0, moved: float = 0.3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    old = -3 * torch.rand(8, 4, generator=generator, dtype=torch.float64)
    return old, (old + moved * torch.randn(8, 4, generator=generator, dtype=torch.float64)).requires_grad_()


def loss_of(algorithm: DisCO, old: Tensor, new: Tensor) -> TensorLoss:
    return TensorLoss(algorithm, REWARDS, GROUP, MASK, {"old_logprobs": old}, current=PolicyOutput(new.detach()))


def with_terms(lam: float | None, budget: KLBudget | None) -> DisCO:
    loss = DiscriminativeLoss(tau=0.5, lam=lam, length=4)
    return DisCO(sampler=GroupSampler(4), minibatches=1, disco=loss, budget=budget, old_logprobs="rollout")


def objective(new: Tensor, lam: float | None) -> Tensor:
    """-J as the papers write it: of three prompts, the first alone has right and wrong completions."""
    lengths = torch.tensor(LENGTHS, dtype=torch.float64)
    score = torch.where(MASK, new, 0.0).sum(1) / lengths
    weight = torch.ones(2).double() if lam is None else ((1 - lengths[:2] / 4) / lam).exp()
    raised = (weight * score[:2]).sum() / weight.sum()
    lowered = 0.5 * ((score[2:4] / 0.5).exp().mean()).log()
    return -(raised - lowered) / 3


@pytest.mark.parametrize("lam", [None, 0.3])
def test_has_the_gradient_of_the_objective(lam: float | None) -> None:
    old, new = old_and_new()
    loss = loss_of(with_terms(lam, None), old, new)
    for rows in ([0, 1, 2], [3, 4], [5, 6, 7]):
        loss(new[rows], torch.tensor(rows)).backward()
    assert new.grad is not None
    (expected,) = torch.autograd.grad(objective(new, lam), new)
    assert expected.abs().max() > 0.01
    assert float((new.grad - expected).abs().max()) <= 1e-12


def test_short_right_completions_count_more_by_hand() -> None:
    """exp(-2 / (4 x 0.5)) and exp(-4 / (4 x 0.5)) share 1; 8 rows are counted, and 3 prompts."""
    old, new = old_and_new()
    rows = loss_of(with_terms(0.5, None), old, new).rows
    share = 1 / (1 + math.exp(-1))
    assert rows.extra("disco_weight")[:2].tolist() == pytest.approx([8 / 3 * share, 8 / 3 * (1 - share)])
    assert float(rows.extra("disco_weight")[2:4].sum()) == pytest.approx(-8 / 3)
    assert not rows.extra("disco_weight")[4:].any()


def test_a_tiny_lambda_takes_the_shortest_and_a_tiny_tau_the_likeliest() -> None:
    old, new = old_and_new()
    algorithm = DisCO(
        sampler=GroupSampler(4), minibatches=1, disco=DiscriminativeLoss(tau=1e-6, lam=1e-6, length=4), old_logprobs="rollout"
    )
    weight = loss_of(algorithm, old, new).rows.extra("disco_weight") * 3 / 8
    score = (torch.where(MASK, new, 0.0).sum(1) / torch.tensor(LENGTHS))[2:4]
    assert weight[:2].tolist() == pytest.approx([1.0, 0.0])
    assert weight[2:4].tolist() == pytest.approx([-1.0, 0.0] if score[0] > score[1] else [0.0, -1.0])


def test_the_budget_is_a_squared_hinge_of_the_steps_kl() -> None:
    old, new = old_and_new()
    moved = (new.detach() - 0.2).requires_grad_()
    loss = loss_of(with_terms(None, KLBudget(budget=0.05, strength=7.0)), old, moved)
    (with_budget,) = torch.autograd.grad(loss(moved), moved)
    (without,) = torch.autograd.grad(loss_of(with_terms(None, None), old, moved)(moved), moved)
    kl = (old - moved)[MASK].mean()
    assert kl > 0.05
    (expected,) = torch.autograd.grad(7.0 * (kl - 0.05).clamp(min=0).square() / 2, moved)
    assert float((with_budget - without - expected).abs().max()) <= 1e-12


def test_within_the_budget_it_does_nothing() -> None:
    part = KLBudget(budget=0.5)
    batch = hand_made_experience([1.0, 0.0])
    found = part.prepare(Minibatch(batch, PolicyOutput(batch.old_logprobs - 0.1)))
    assert found["kl_excess"].tolist() == [0.0, 0.0]
    assert KLBudget(coefficient=0.0).gives == frozenset()


def test_the_published_constants() -> None:
    drpo, disco = DRPO(), DisCO()
    assert isinstance(drpo.disco, DiscriminativeLoss)
    assert isinstance(drpo.budget, KLBudget)
    assert (drpo.disco.tau, drpo.disco.lam, drpo.disco.length) == (10.0, 0.1, 8192)
    assert (drpo.budget.budget, drpo.budget.strength) == (1e-4, 1e3)
    assert isinstance(disco.disco, DiscriminativeLoss)
    assert disco.disco.lam is None
    assert drpo.sampler.group_size == 8


def test_groups_of_one_and_steps_of_rows_are_refused() -> None:
    with pytest.raises(ValueError, match=r"DiscriminativeLoss compares completions of one prompt.*group_size"):
        DRPO(sampler=GroupSampler(1))
    with pytest.raises(ValueError, match="DiscriminativeLoss in disco needs all completions of a prompt in one optimizer step"):
        DRPO(minibatch_of="rows")
