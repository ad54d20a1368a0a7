"""Rollouts in bfloat16 under a trainer in float32: log-probs that are nearly the trainer's, and never the old ones."""

from __future__ import annotations

import pytest
import torch
from lightrl_workshop import SmallDigits, quiet_trainer, rollouts_with

from benchmarks.evidence.real_sized import RealSizedPolicy
from lightrl import (
    DigitSorting,
    GroupRelative,
    GroupSampler,
    PolicyOptimization,
    Prompt,
    PromptData,
    TransformersEngine,
    TruncatedImportance,
)
from lightrl.callbacks.alarms import Alarms

PROMPTS = [Prompt(id=str(i), text=f"{i}{i + 3}12=") for i in range(4)]


def test_log_probs_are_the_trainers_within_rounding_and_the_weights_stay_as_they_are() -> None:
    policy = RealSizedPolicy().build()
    before = {name: tensor.clone() for name, tensor in policy.state_dict().items()}
    rollout = rollouts_with(policy, TransformersEngine(8, dtype="bfloat16")).rollout(PROMPTS, 3)
    with torch.no_grad():
        exact = policy(rollout.input_ids, rollout.response_mask).logprobs
    difference = (exact - rollout.rollout_logprobs)[rollout.response_mask].abs()
    assert 0 < float(difference.mean()) < 0.1
    after = policy.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())


def test_an_engine_without_it_says_that_its_log_probs_are_exact() -> None:
    plain, narrow = TransformersEngine(), TransformersEngine(dtype="bfloat16")
    assert (plain.exact_logprobs, plain.logprob_tolerance) == (True, None)
    assert (narrow.exact_logprobs, narrow.logprob_tolerance) == (False, 0.1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("corrected", [False, True])
def test_the_first_ratio_is_1_and_a_correction_weighs_what_was_rounded(corrected: bool) -> None:
    alarms = Alarms(only=["first_pass_ratio"])
    module = PolicyOptimization(
        policy=RealSizedPolicy(),
        algorithm=GroupRelative(sampler=GroupSampler(group_size=4), correction=TruncatedImportance() if corrected else None),
        rewards={"digits": SmallDigits()},
        engine=TransformersEngine(max_new_tokens=8, dtype="bfloat16"),
        prompts_per_rollout=8,
        optimizer=lambda p: torch.optim.AdamW(p, lr=1e-4),
    )
    trainer = quiet_trainer(max_epochs=2, callbacks=[alarms])
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=40)))
    assert not alarms.raised
    metrics = trainer.callback_metrics
    assert float(metrics["ratio/mean"]) == pytest.approx(1.0, abs=1e-5)
    if corrected:
        assert 1e-4 < abs(float(metrics["correction/rho_max"]) - 1) < 1
