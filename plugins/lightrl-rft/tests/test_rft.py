"""The step's gradient is that of the offline loss on what was chosen."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lightrl_rft import AtLeast, BestAgainstWorst, BestAndWorst, BestOfGroup, ExpertIteration, Imitation, OnlineDPO
from lightrl_workshop.experience import experience
from torch import Tensor

from lightrl import Experience, GroupRelative, GroupSampler


def rows(**changes: Any) -> Experience:
    return experience(**{"rewards": [1.0, 0.0, 1.0, 0.5, 0.5, 0.5], "group": [0, 0, 0, 1, 1, 1], **changes})


def test_the_likeliest_of_the_best_is_kept() -> None:
    subject = rows()
    subject.rollout_logprobs = torch.where(subject.response_mask, -1.0, 0.0)
    subject.rollout_logprobs[2] *= 0.5
    kept = BestOfGroup().weights(subject).amax(1)
    assert kept.tolist()[:3] == [0.0, 0.0, 1.0]
    assert kept[3:].sum() == 1
    assert BestOfGroup(at_least=0.6).weights(subject).amax(1).tolist() == [0, 0, 1, 0, 0, 0]
    assert AtLeast(1.0).weights(subject).amax(1).tolist() == [1, 0, 1, 0, 0, 0]
    assert BestAndWorst().weights(subject).amax(1).tolist() == [0, 1, 1, 0, 0, 0]


def test_rows_that_could_not_be_scored_are_neither_best_nor_good_enough() -> None:
    subject = rows()
    subject.scorable = torch.tensor([False, True, False, True, True, True])
    assert BestOfGroup().weights(subject).amax(1).tolist()[:3] == [0.0, 1.0, 0.0]
    assert AtLeast(1.0).weights(subject).sum() == 0
    assert BestAndWorst().weights(subject).sum() == 0


def test_the_gradient_is_that_of_dpo_on_best_against_worst() -> None:
    subject, beta = rows(), 0.3
    torch.manual_seed(0)
    logprobs = torch.randn_like(subject.old_logprobs, dtype=torch.float64).requires_grad_()
    subject.old_logprobs = logprobs.detach().clone()
    subject.ref_logprobs = torch.randn_like(subject.old_logprobs)
    subject.rollout_logprobs = subject.old_logprobs.clone()
    chosen = max((0, 2), key=lambda row: float(summed(subject.rollout_logprobs, subject)[row]))
    policy, reference = summed(logprobs, subject), summed(subject.ref_logprobs, subject)
    h = beta * ((policy[chosen] - reference[chosen]) - (policy[1] - reference[1]))
    (expected,) = torch.autograd.grad(-torch.nn.functional.logsigmoid(h), logprobs)

    algorithm = OnlineDPO(advantage=BestAgainstWorst(beta=beta))
    weights = algorithm.token_weight.weights(subject) * subject.response_mask
    advantages = algorithm.advantage.compute(subject)
    surrogate = algorithm.clip.surrogate(
        logprobs - subject.old_logprobs, advantages.advantages, subject.old_logprobs, subject.response_mask
    )
    # SequenceSum: the mean over the two rows that carry loss
    (found,) = torch.autograd.grad((surrogate.loss * weights).sum() / 2, logprobs)
    assert torch.allclose(found, expected, atol=1e-7)
    assert float(advantages.statistics["dpo/margin"][chosen]) == pytest.approx(float(h))


def test_imitating_everything_is_refused() -> None:
    with pytest.raises(ValueError, match="Imitation"):
        GroupRelative(advantage=Imitation())
    assert isinstance(ExpertIteration().token_weight, BestOfGroup)


@pytest.mark.parametrize("weight", [BestOfGroup(), BestAndWorst()])
def test_one_completion_per_prompt_leaves_nothing_to_choose_from(weight: BestOfGroup | BestAndWorst) -> None:
    with pytest.raises(ValueError, match=rf"{type(weight).__name__} .*GroupSampler"):
        GroupRelative(advantage=Imitation(), token_weight=weight, sampler=GroupSampler(1))


def summed(values: Tensor, subject: Experience) -> Tensor:
    return torch.where(subject.response_mask, values, 0.0).sum(1)
