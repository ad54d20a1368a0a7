"""Distillation by hand numbers, by enumeration, and against DeepSpeed's."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from lightrl_distill import GKD, AdvantageSum, ForwardKL, JensenShannon, OnPolicyDistillation, ReverseKL, TeacherAdvantage, TeacherLoss
from lightrl_workshop import assert_same_gradient, gradient_of_step, random_rollout
from lightrl_workshop import hand_made_experience as experience

from lightrl import (
    Algorithm,
    BaseReference,
    Comparison,
    GroupCentered,
    GroupSampler,
    Rollout,
    Teacher,
    TinyPolicy,
)

pytestmark = pytest.mark.filterwarnings("ignore:the engine.s log-probs")  # rollouts here are made off-policy

DIVERGENCES: list[Comparison] = [ForwardKL(), ReverseKL(), JensenShannon(0.3)]


def policy_of(seed: int, hidden: int = 16) -> TinyPolicy:
    return TinyPolicy(hidden=hidden, layers=1, heads=2, dtype="float64", seed=seed)


def test_a_token_gets_what_the_teacher_finds_likelier() -> None:
    rows = experience([0.0], lengths=[2], old_logprobs=torch.tensor([[0.0, 0, -1.0, -2.0]]))
    rows.further_logprobs = {"teacher_logprobs": torch.tensor([[0.0, 0, -0.5, -4.0]])}
    assert TeacherAdvantage().compute(rows).advantages.tolist() == [[0, 0, 0.5, -2.0]]
    assert TeacherAdvantage(gamma=0.5).compute(rows).advantages.tolist() == [[0, 0, -0.5, -2.0]]
    assert TeacherAdvantage().compute(rows).statistics["teacher/reverse_kl"][0, 2:].tolist() == [-0.5, 2.0]


def test_rewards_may_stand_beside_it() -> None:
    rows = experience([1.0, 0.0], lengths=[1, 1])
    rows.further_logprobs = {"teacher_logprobs": torch.full((2, 3), -0.25)}
    both = AdvantageSum({"outcome": GroupCentered(), "teacher": TeacherAdvantage()}, weights={"teacher": 2.0})
    assert both.needs_rewards
    assert not AdvantageSum({"teacher": TeacherAdvantage()}).needs_rewards
    assert both.compute(rows).advantages[:, 2].tolist() == [0.0, -1.0]


def gradient_of(value: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(value, logits, retain_graph=True)[0]


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_the_expected_gradient_is_that_of_the_reverse_kl_by_enumeration(gamma: float) -> None:
    """Two tokens of a vocabulary of 10, the second depending on the first: all 100 completions, each with its probability."""
    torch.manual_seed(0)
    logits, teacher = torch.randn(11, 10, dtype=torch.float64, requires_grad=True), torch.randn(11, 10, dtype=torch.float64)
    own, other = logits.log_softmax(-1), teacher.log_softmax(-1)
    pairs = torch.tensor(list(product(range(10), range(10))))
    chosen, said = (torch.stack([of[0, pairs[:, 0]], of[1 + pairs[:, 0], pairs[:, 1]]], 1) for of in (own, other))
    rows = experience([0.0] * 100, lengths=[2] * 100)
    rows.token_rewards = rows.token_rewards.double()
    rows.old_logprobs = torch.nn.functional.pad(chosen.detach(), (2, 0))
    rows.further_logprobs = {"teacher_logprobs": torch.nn.functional.pad(said, (2, 0))}
    advantages = TeacherAdvantage(gamma).compute(rows).advantages[:, 2:]
    probability = chosen.detach().sum(1).exp()
    expected = gradient_of(-(probability[:, None] * advantages * chosen).sum(), logits)
    per_state = (own.exp() * (own - other)).sum(-1)
    first = own[0].exp() if gamma else own[0].detach().exp()
    exact = gradient_of(per_state[0] + (first * per_state[1:]).sum(), logits)
    torch.testing.assert_close(expected, exact, atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize("beta", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_divergences_are_deepspeeds(beta: float) -> None:
    from deepspeed.runtime.rollout.opsd import generalized_jsd_loss

    torch.manual_seed(1)
    ours, teacher = torch.randn(4, 10, dtype=torch.float64, requires_grad=True), torch.randn(4, 10, dtype=torch.float64)
    divergence = {0.0: ForwardKL(), 1.0: ReverseKL()}.get(beta) or JensenShannon(beta)
    mine = divergence.compare(ours, teacher, torch.zeros(4, dtype=torch.long)).mean()
    theirs = generalized_jsd_loss(ours[None], teacher[None], torch.ones(1, 4), beta=beta).loss
    torch.testing.assert_close(mine, theirs, atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(gradient_of(mine, ours), gradient_of(theirs, ours), atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=repr)
def test_a_policy_that_is_its_teacher_has_no_divergence_and_no_gradient(divergence: Comparison) -> None:
    logits = torch.randn(3, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    found = divergence.compare(logits, logits.detach(), torch.zeros(3, dtype=torch.long))
    assert found.abs().max() < 1e-12
    assert gradient_of(found.sum(), logits).abs().max() < 1e-12


def made(divergence: Comparison | None) -> Algorithm:
    common = {"sampler": GroupSampler(group_size=4), "teacher": Teacher(policy_of(7, hidden=24))}
    return OnPolicyDistillation(**common) if divergence is None else GKD(**common, distillation=TeacherLoss(divergence.but()))


def gradient(algorithm: Algorithm, rollout: Rollout, budget: int | None) -> torch.Tensor:
    return gradient_of_step(algorithm, rollout, policy_of(0), budget)


@pytest.mark.parametrize("divergence", [None, *DIVERGENCES], ids=repr)
def test_micro_batch_budget_row_order_and_padding_change_nothing(divergence: Comparison | None) -> None:
    rollout = random_rollout(policy_of(0).build(), groups=4, group_size=4)
    whole = gradient(made(divergence), rollout, None)
    for budget in (64, 512):
        assert_same_gradient(whole, gradient(made(divergence), rollout, budget))
    shuffled = rollout.select(torch.randperm(len(rollout), generator=torch.Generator().manual_seed(1)))
    assert_same_gradient(whole, gradient(made(divergence), shuffled, 64))
    assert_same_gradient(whole, gradient(made(divergence), rollout.padded(40), 512))


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=repr)
def test_the_gradient_is_that_of_the_full_logits(divergence: Comparison) -> None:
    """Of the formula, by autograd through the whole of both models."""
    rollout = random_rollout(policy_of(0).build(), groups=4, group_size=4)
    policy, teacher, mask = policy_of(0).build(), policy_of(7, hidden=24).build(), rollout.response_mask
    with torch.no_grad():
        said = teacher.model(input_ids=rollout.input_ids).logits
    own = policy.model(input_ids=rollout.input_ids).logits
    rows, places = mask.nonzero(as_tuple=True)
    loss = divergence.compare(own[rows, places - 1], said[rows, places - 1], rollout.input_ids[mask]).mean()
    loss.backward()
    slopes = dict(policy.named_parameters())
    expected = torch.cat(
        [slopes[name].grad.flatten() if name in slopes else value.flatten() * 0 for name, value in policy.state_dict().items()]
    )
    found = gradient(made(divergence), rollout, 64)
    kept = torch.cat([torch.full((value.numel(),), name in slopes) for name, value in policy.state_dict().items()])
    assert_same_gradient(expected[kept], found[kept])


def test_a_larger_vocabulary_of_the_teacher_is_refused_with_both_sizes() -> None:
    with pytest.raises(ValueError, match="the policy has 10 logits where the teacher has 12: resize"):
        ReverseKL().checked(torch.zeros(2, 10), torch.zeros(2, 12), torch.zeros(2, dtype=torch.long))


def test_a_reference_without_logits_is_refused_where_they_are_compared() -> None:
    with pytest.raises(ValueError, match="TeacherLoss wants JensenShannon of all logits of policy and teacher, and BaseReference does not"):
        GKD(teacher=BaseReference())
