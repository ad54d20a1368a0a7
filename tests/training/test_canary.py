"""The canary: a run does not go on with an engine that samples from other weights than the trainer's."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
import torch

from lightrl import (
    Function,
    GroupRelative,
    GroupSampler,
    PolicyOptimization,
    Prompt,
    PromptData,
    Reversal,
    TinyPolicy,
)
from lightrl.testing import quiet_trainer, rollouts_with
from lightrl.testing.checks.continuations import peaked_policy
from lightrl.training.canary import canary_deviation, watch

sys.path.insert(0, str(Path(__file__).parent))
from own_copy import OwnCopy

PROMPTS = [Prompt(id=str(i), text=f"{i}=") for i in range(6)]


def module_with(engine: OwnCopy) -> PolicyOptimization:
    """A run whose weights move a lot."""
    return PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1, heads=2),
        algorithm=GroupRelative(sampler=GroupSampler(group_size=4)),
        rewards={"small": Function("lightrl.testing.toy.small_digits", runs="inline")},
        engine=engine,
        prompts_per_rollout=4,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-2),
    )


def numbers_of(engine: OwnCopy, rollouts: int) -> list[float]:
    """The deviation that each rollout of a run has logged."""
    found = list[float]()

    class Watched(PolicyOptimization):
        def log_ledger(self) -> dict[str, float]:
            numbers = super().log_ledger()
            found.append(numbers["engine/deviation"])
            return numbers

    module = module_with(engine)
    module.__class__ = Watched
    quiet_trainer(max_epochs=rollouts).fit(module, datamodule=PromptData(train=Reversal(examples=100)))
    return found


def test_an_engine_with_the_present_weights_goes_on() -> None:
    deviations = numbers_of(OwnCopy(), 3)
    assert len(deviations) == 3
    assert max(deviations) < 1e-4


def test_an_engine_that_keeps_its_first_weights_ends_the_run() -> None:
    with pytest.raises(RuntimeError, match=r"OwnCopy does not sample from the trainer's weights: .* at step 1 .* deviates by"):
        numbers_of(OwnCopy(updates=1), 3)


def test_a_later_update_that_is_missed_ends_the_run() -> None:
    with pytest.raises(RuntimeError, match=r"at step 3 "):
        numbers_of(OwnCopy(updates=3), 5)


def test_an_evaluation_notices_as_well() -> None:
    data = PromptData(train=Reversal(examples=100), validation_size=8)
    with pytest.raises(RuntimeError, match=r"at step 1 "):
        # its update comes before that of the second rollout
        quiet_trainer(max_epochs=2, num_sanity_val_steps=0).fit(module_with(OwnCopy(updates=1)), datamodule=data)


def test_an_engine_may_say_how_exact_it_is() -> None:
    with pytest.raises(RuntimeError, match=r"deviates by 0\.0476 \(tolerance 0\.001\)"):
        numbers_of(OwnCopy(factor=1.05), 1)
    [deviation] = numbers_of(OwnCopy(factor=1.05, tolerance=0.1), 1)
    assert deviation == pytest.approx(1 - 1 / 1.05, abs=1e-4)


def test_the_deviation_by_hand() -> None:
    policy = peaked_policy()
    rollout = rollouts_with(policy).rollout(PROMPTS, 1)
    cpu = torch.device("cpu")
    assert canary_deviation(rollout, policy, cpu) < 1e-5
    last = int(rollout.response_mask[2].nonzero()[-1])
    # a token of the third row is twice as likely to the trainer
    rollout.rollout_logprobs[2, last] -= math.log(2)
    assert canary_deviation(rollout, policy, cpu) == pytest.approx(1.0, abs=1e-4)
    # rows behind the first four are not looked at, nor are tokens that nobody sampled
    rollout.rollout_logprobs[2, last] += math.log(2)
    rollout.rollout_logprobs[4:] = -100.0
    rollout.rollout_logprobs[:, 0] = -100.0
    assert canary_deviation(rollout, policy, cpu) < 1e-5
    rollout.rollout_logprobs[0, int(rollout.response_mask[0].nonzero()[0])] = math.nan
    assert math.isnan(canary_deviation(rollout, policy, cpu))


def test_a_rank_without_rows_runs_as_many_forwards() -> None:
    policy = peaked_policy()
    forwards = list[int]()
    policy.register_forward_pre_hook(lambda _, inputs: forwards.append(len(inputs[0])))
    rollout = rollouts_with(policy).rollout(PROMPTS, 1)
    for rows in (6, 2, 0):
        forwards.clear()
        assert canary_deviation(rollout.select(range(rows)), policy, torch.device("cpu")) < 1e-5
        assert forwards == [1, 1, 1, 1]


def test_verbs_without_a_trainer_notice_too() -> None:
    policy = peaked_policy()
    rollouts = rollouts_with(policy, OwnCopy(factor=1.05))
    watch(rollouts, policy)
    with pytest.raises(RuntimeError, match=r"deviates by 0\.0476"):
        rollouts.rollout(PROMPTS, 1)
    rollouts = rollouts_with(policy, OwnCopy())
    watch(rollouts, policy)
    assert len(rollouts.rollout(PROMPTS, 1)) == len(PROMPTS)
