"""The canary: a run does not go on with an engine that samples from other weights than the trainer's."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from lightrl_workshop import quiet_trainer, rollouts_with
from lightrl_workshop.checks.continuations import peaked_policy

from benchmarks.evidence.real_sized import RealSizedPolicy
from lightrl import (
    Function,
    GroupRelative,
    GroupSampler,
    Limits,
    LoraPolicy,
    Policy,
    PolicyOptimization,
    Prompt,
    PromptData,
    Request,
    Reversal,
    RolloutEngine,
    SingleTurn,
    TinyPolicy,
)
from lightrl.policy.weights import TrainerWeights
from lightrl.rollout.loop import RolloutLoop
from lightrl.training.evaluating.canary import Canary, PolicyWatch
from lightrl.types import TrainingBatch

sys.path.insert(0, str(Path(__file__).parent))
from own_copy import Drops, OneUpdateLate, OwnCopy, Untempered, Warmer

PROMPTS = [Prompt(id=str(i), text=f"{i}=") for i in range(6)]
CPU = torch.device("cpu")
FORMATS = {"32-true": "float32", "bf16-true": "bfloat16", "bf16-mixed": "float32"}


def module_with(engine: OwnCopy, policy: TinyPolicy | LoraPolicy | None = None, rate: float = 1e-2) -> PolicyOptimization:
    return PolicyOptimization(
        policy=policy or TinyPolicy(hidden=16, layers=1, heads=2),
        algorithm=GroupRelative(sampler=GroupSampler(group_size=4)),
        rewards={"small": Function("lightrl_workshop.toy.small_digits", runs="inline")},
        engine=engine,
        prompts_per_rollout=4,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=rate),
    )


def numbers_of(module: PolicyOptimization, rollouts: int, precision: str = "32-true") -> list[float]:
    """The largest deviation that each rollout of a run has logged."""
    found = list[float]()

    class Watched(PolicyOptimization):
        def finish(self, batch: TrainingBatch, seconds: float) -> None:
            super().finish(batch, seconds)
            found.append(self.numbers["engine/deviation"])

    module.__class__ = Watched
    quiet_trainer(max_epochs=rollouts, precision=precision).fit(module, datamodule=PromptData(train=Reversal(examples=100)))
    return found


def test_an_engine_with_the_present_weights_goes_on() -> None:
    deviations = numbers_of(module_with(OwnCopy()), 3)
    assert len(deviations) == 3
    assert max(deviations) < 1e-4


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("precision", FORMATS)
def test_b1_and_b2_a_healthy_engine_with_real_sized_logits_goes_on(precision: str) -> None:
    policy = RealSizedPolicy(dtype=FORMATS[precision])  # type: ignore[arg-type]
    assert len(numbers_of(module_with(OwnCopy(), policy, rate=1e-4), 6, precision)) == 6


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rate", [1e-6, 1e-4])
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("engine", [OneUpdateLate, lambda: OwnCopy(updates=1)])
def test_an_update_that_is_missed_is_named_at_once_whatever_its_size(engine: type[OwnCopy], precision: str, rate: float) -> None:
    with pytest.raises(
        RuntimeError, match=r"does not sample from the trainer's weights, after their update at step 1: it answers as it did"
    ):
        numbers_of(module_with(engine(), RealSizedPolicy(), rate), 3, precision)


def test_a_missed_update_of_bf16_weights_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"at step 1: it answers as it did"):
        numbers_of(module_with(OwnCopy(updates=1), RealSizedPolicy(dtype="bfloat16"), 1e-4), 3, "bf16-true")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_adapters_that_an_engine_drops_are_named_at_their_first_update(precision: str) -> None:
    with pytest.raises(RuntimeError, match=r"at step 1: it answers as it did .* such as adapters"):
        numbers_of(module_with(Drops(), LoraPolicy(RealSizedPolicy(), r=4), 1e-4), 3, precision)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("precision", FORMATS)
def test_weights_of_another_seed_are_named_at_once(precision: str) -> None:
    policy = RealSizedPolicy(dtype=FORMATS[precision])  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match=r"at step 0: over \d+ tokens log-probs differ by"):
        numbers_of(module_with(OwnCopy(replaced=RealSizedPolicy(seed=1, dtype=FORMATS[precision])), policy), 1, precision)  # type: ignore[arg-type]


def test_another_temperature_is_named_at_once() -> None:
    with pytest.raises(RuntimeError, match=r"at step 0: over \d+ tokens log-probs differ by"):
        numbers_of(module_with(Warmer()), 1)


def test_an_engine_that_knows_no_temperature_is_named_also_where_the_run_samples_at_1() -> None:
    engine = Untempered()
    with pytest.raises(RuntimeError, match=r"at step 0: over \d+ tokens log-probs differ by"):
        numbers_of(module_with(engine), 1)
    engine = Untempered()
    engine.probed_at = 1.0
    assert max(numbers_of(module_with(engine), 2)) < 1e-4


def test_a_later_update_that_is_missed_ends_the_run() -> None:
    with pytest.raises(RuntimeError, match=r"at step 3:"):
        numbers_of(module_with(OwnCopy(updates=3)), 5)


def test_an_evaluation_notices_as_well() -> None:
    data = PromptData(train=Reversal(examples=100), validation_size=8)
    with pytest.raises(RuntimeError, match=r"at step 1:"):
        # its update comes before that of the second rollout
        quiet_trainer(max_epochs=2, num_sanity_val_steps=0).fit(module_with(OwnCopy(updates=1)), datamodule=data)


def test_a_rate_of_zero_moves_nobody_and_is_no_fault() -> None:
    assert len(numbers_of(module_with(OwnCopy(updates=1), rate=0.0), 3)) == 3


def test_an_engine_may_say_how_exact_it_is() -> None:
    with pytest.raises(RuntimeError, match=r"differ by 0\.0488 on average \(limit 0\.0001\)"):
        numbers_of(module_with(OwnCopy(factor=1.05)), 1)
    [deviation] = numbers_of(module_with(OwnCopy(factor=1.05, tolerance=0.1)), 1)
    assert deviation == pytest.approx(1 - 1 / 1.05, abs=1e-4)


def test_the_agreement_by_hand() -> None:
    policy, canary, limits = peaked_policy(), Canary(), Limits(0.1, 0.1)
    rollout = rollouts_with(policy).rollout(PROMPTS, 1)
    assert canary.look(rollout, policy, CPU, limits) is None
    tokens = canary.agreement.tokens
    assert canary.agreement.largest < 1e-5
    last = int(rollout.response_mask[2].nonzero()[-1])
    # a token of the third row is twice as likely to the trainer
    rollout.rollout_logprobs[2, last] -= math.log(2)
    assert canary.look(rollout, policy, CPU, limits) is None
    assert canary.agreement.largest == pytest.approx(1.0, abs=1e-4)
    assert canary.agreement.mean == pytest.approx(math.log(2) / tokens, abs=1e-4)
    assert canary.agreement.far == pytest.approx(1 / tokens)
    # rows behind the first four are not looked at, nor are tokens that nobody sampled
    rollout.rollout_logprobs[2, last] += math.log(2)
    rollout.rollout_logprobs[4:] = -100.0
    rollout.rollout_logprobs[:, 0] = -100.0
    canary.look(rollout, policy, CPU, limits)
    assert canary.agreement.largest < 1e-5
    rollout.rollout_logprobs[0, int(rollout.response_mask[0].nonzero()[0])] = math.nan
    assert canary.look(rollout, policy, CPU, limits) is not None


def test_a_rank_without_rows_runs_as_many_forwards() -> None:
    policy = peaked_policy()
    forwards = list[int]()
    policy.register_forward_pre_hook(lambda _, inputs: forwards.append(len(inputs[0])))
    rollout = rollouts_with(policy).rollout(PROMPTS, 1)
    for rows in (6, 2, 0):
        forwards.clear()
        assert Canary().look(rollout.select(range(rows)), policy, CPU, Limits(1e-4, 0.0)) is None
        assert forwards == [1, 1, 1, 1]


def watched(engine: RolloutEngine, policy: Policy) -> RolloutLoop:
    rollouts = RolloutLoop(engine, SingleTurn(), PolicyWatch(engine, policy))
    rollouts.update_weights(TrainerWeights(policy), 0)
    return rollouts


def test_verbs_without_a_trainer_notice_too() -> None:
    policy = peaked_policy()
    rollouts = watched(OwnCopy(factor=1.05), policy)
    with pytest.raises(RuntimeError, match=r"differ by 0\.0488 on average"):
        rollouts.rollout(PROMPTS, 1)
    rollouts = watched(OwnCopy(), policy)
    assert len(rollouts.rollout(PROMPTS, 1)) == len(PROMPTS)


def test_an_engine_whose_logprobs_cannot_be_compared_is_asked_no_questions() -> None:
    """Completions of a file have no answers to them: `make bench CASE=curves` had ended at the first rollout."""

    class Asked(OwnCopy):
        comparable_logprobs = False
        requests: list[int] = []

        def submit(self, requests: Sequence[Request]) -> None:
            self.requests.append(len(requests))
            super().submit(requests)

    quiet_trainer(max_epochs=2).fit(module_with(Asked()), datamodule=PromptData(train=Reversal(examples=100)))
    assert Asked.requests == [16, 16]
