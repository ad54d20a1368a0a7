"""Outputs of the policy: hand numbers, and where parts find them during a step and before it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from lightrl_workshop import CodePoints, ReplayedRollouts, hand_made_experience, quiet_trainer, random_rollout
from torch import Tensor

from lightrl import (
    Advantages,
    DigitSorting,
    Entropy,
    EntropyBonus,
    Experience,
    GroupCentered,
    GroupRelative,
    GroupSampler,
    Output,
    PolicyOptimization,
    PromptData,
    TinyPolicy,
    TransformersEngine,
)


def test_entropy_by_hand() -> None:
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.0, math.log(3), -math.inf, -math.inf]], dtype=torch.float64).requires_grad_()
    found = Entropy().compute(logits, torch.tensor([0, 1]))
    assert found.tolist() == pytest.approx([math.log(4), math.log(4) - 0.75 * math.log(3)])
    found.sum().backward()
    # dH/dz_v = -p_v (log p_v + H): with probabilities 1/4 and 3/4
    slope = 0.25 * 0.75 * math.log(3)
    assert logits.grad[1].tolist() == pytest.approx([slope, -slope, 0.0, 0.0])


class Collision(Output):
    """The chance that two samples are the same."""

    name = "collision"

    def compute(self, logits: Tensor, ids: Tensor) -> Tensor:
        return logits.softmax(-1).square().sum(-1)


class LessWhereSure(GroupCentered):
    """Divides the advantages by the chance that the policy which sampled says the same twice."""

    old_outputs = (Collision(),)

    def compute(self, experience: Experience) -> Advantages:
        return Advantages(super().compute(experience).advantages * (1 - experience.extra("old_collision")))


def test_an_advantage_reads_outputs_of_the_policy_that_sampled_and_a_watched_one_is_logged() -> None:
    policy = TinyPolicy(hidden=16, layers=1, heads=2, dtype="float64").build()
    rollout = random_rollout(policy, groups=2, group_size=4)
    algorithm = GroupRelative(
        advantage=LessWhereSure(), sampler=GroupSampler(group_size=4), watched=Entropy(), entropy=EntropyBonus(0.01), minibatches=2
    )
    module = PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1, heads=2, dtype="float64"),
        algorithm=algorithm,
        rewards={"codes": CodePoints()},
        engine=TransformersEngine(max_new_tokens=16),
        prompts_per_rollout=2,
        micro_batch_tokens=40,
        optimizer=lambda p: torch.optim.SGD(p, lr=0.1),
    )
    module.collector.rollouts = ReplayedRollouts(rollout)
    trainer = quiet_trainer(max_epochs=1)
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=100)))
    rows: Any = module.experience
    with torch.no_grad():
        logq = policy.model(rollout.input_ids).logits.log_softmax(-1)[:, :-1]
    mask = rows.response_mask[:, 1:]
    collision = torch.where(mask, logq.exp().square().sum(-1), 0.0)
    assert torch.allclose(rows.extra("old_collision")[:, 1:], collision, atol=1e-12)
    plain = GroupCentered().compute(rows).advantages[:, 1:]
    assert torch.allclose(rows.advantages[:, 1:], plain * (1 - collision))
    entropy = -(logq.exp() * logq).sum(-1)[mask].mean()
    assert float(trainer.logged_metrics["watched/entropy"]) == pytest.approx(float(entropy), rel=1e-6)
    # of the current policy, which the first of the two steps has changed
    assert float(trainer.logged_metrics["entropy"]) != pytest.approx(float(entropy), rel=1e-6)


def test_what_nobody_left_is_missed_by_name() -> None:
    with pytest.raises(RuntimeError, match="no extra 'old_entropy' here, but none"):
        hand_made_experience([1.0]).extra("old_entropy")
