"""Layers may compute in bfloat16; everything that is learnt from is float32."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from lightrl_workshop import SmallDigits, quiet_trainer

from benchmarks.evidence.real_sized import RealSizedPolicy
from lightrl import (
    GAE,
    DecoupledClip,
    DigitSorting,
    Entropy,
    FrozenReference,
    GroupRelative,
    GroupSampler,
    KLPenalty,
    LoraPolicy,
    PolicyOptimization,
    PromptData,
    TinyPolicy,
    TransformersEngine,
    TruncatedImportance,
    ValueHead,
)
from lightrl.callbacks.alarms import Alarms
from lightrl.ops.agreement import Limits
from lightrl.rollout.hosting.policy_outline import PolicyOutline
from lightrl.training.online.policy_learner import PolicyLearner
from lightrl.training.online.predictions import old_from, said
from lightrl.training.setup.precision import check_precision


class RecordingLearner(PolicyLearner):
    def outputs(self, *arguments: Any, **options: Any) -> Any:
        output = super().outputs(*arguments, **options)
        self.module.found["logprobs"] = output.logprobs.dtype
        return output


class Recorder(PolicyOptimization):
    """Keeps the dtypes of the tensors of an experience, and of the log-probs in the loss."""

    learner_class = RecordingLearner

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.found: dict[str, torch.dtype] = {}

    def optimization_phase(self, experience: Any) -> None:
        names = ("rollout_logprobs", "old_logprobs", "ref_logprobs", "advantages", "token_rewards", "token_weight")
        self.found |= {name: getattr(experience, name).dtype for name in names}
        super().optimization_phase(experience)


def fit(precision: str, dtype: str, strategy: str = "auto", lora: bool = False, reference: FrozenReference | None = None) -> Recorder:
    torch.manual_seed(0)
    base = TinyPolicy(hidden=32, layers=2, dtype=dtype)  # type: ignore[arg-type]
    module = Recorder(
        policy=LoraPolicy(base, r=4) if lora else base,
        algorithm=GroupRelative(
            sampler=GroupSampler(group_size=8),
            clip=DecoupledClip(0.2, 0.2),
            kl=KLPenalty(loss_coefficient=0.1),
            reference=reference or FrozenReference(),
        ),
        rewards={"digits": SmallDigits()},
        engine=TransformersEngine(max_new_tokens=8),
        prompts_per_rollout=4,
        optimizer=lambda p: torch.optim.AdamW(p, lr=1e-3),
    )
    trainer = quiet_trainer(strategy=strategy, precision=precision, max_epochs=1)
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=40), validation_size=0))
    return module


SETTINGS = [("32-true", "float32"), ("32-true", "bfloat16"), ("bf16-true", "bfloat16"), ("bf16-mixed", "float32")]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("precision", "dtype"), SETTINGS)
def test_w1_what_is_learnt_from_is_float32_and_the_first_ratio_is_one(precision: str, dtype: str) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="the engine's log-probs are not the trainer's")
        module = fit(precision, dtype)
    assert set(module.found.values()) == {torch.float32}
    metrics = module.trainer.callback_metrics
    assert float(metrics["ratio/mean"]) == pytest.approx(1.0, abs=1e-5 if (precision, dtype) == SETTINGS[0] else 5e-3)
    assert float(metrics["kl"]) == pytest.approx(0.0, abs=1e-9 if (precision, dtype) == SETTINGS[0] else 1e-4)
    assert {p.dtype for p in module.policy.parameters()} == {getattr(torch, dtype)}
    assert float(metrics["grad_norm"]) > 0


def test_log_probs_in_bfloat16_are_those_of_float32_within_its_rounding() -> None:
    ids = torch.randint(2, 24, (8, 20), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids, dtype=torch.bool).index_fill_(1, torch.tensor([0]), False)
    whole, half = TinyPolicy(hidden=64).build(), TinyPolicy(hidden=64, dtype="bfloat16").build()
    with torch.no_grad():
        exact, rounded = whole(ids, mask).logprobs, half(ids, mask).logprobs
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            mixed = whole(ids, mask).logprobs
    # eight bits of mantissa: a relative error of 2^-9 in logits of about 1, and a few layers of them
    for found in (rounded, mixed):
        assert found.dtype == torch.float32
        assert 0 < float((found - exact)[mask].abs().max()) < 16 * 2**-9


@pytest.mark.filterwarnings("ignore")
def test_adapters_start_at_their_reference_exactly() -> None:
    metrics = fit("32-true", "float32", lora=True).trainer.callback_metrics
    assert float(metrics["kl"]) == 0.0
    assert float(metrics["grad_norm"]) > 0


@pytest.mark.filterwarnings("ignore")
def test_an_offloaded_reference_says_the_same() -> None:
    found = [fit("32-true", "float32", reference=FrozenReference(offload=where)).trainer.callback_metrics for where in (None, "cpu")]
    assert float(found[0]["kl"]) == float(found[1]["kl"])
    assert float(found[0]["grad_norm"]) == float(found[1]["grad_norm"])


@pytest.mark.parametrize(
    ("precision", "dtype", "message"),
    [
        ("bf16-true", torch.float32, r"--model.policy.dtype bfloat16, or --trainer.precision bf16-mixed, or 32-true"),
        ("bf16-mixed", torch.bfloat16, r"--model.policy.dtype float32, or --trainer.precision bf16-true"),
        ("64-true", torch.float32, "float64"),
        ("16-mixed", torch.float32, "too small for float16"),
        ("16-true", torch.float16, "too small for float16"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(precision: str, dtype: torch.dtype, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_precision(precision, dtype)


@pytest.mark.parametrize(("precision", "dtype"), [*((p, getattr(torch, d)) for p, d in SETTINGS), ("64-true", torch.float64)])
def test_settings_that_go_together(precision: str, dtype: torch.dtype) -> None:
    check_precision(precision, dtype)


@pytest.fixture
def _matmul() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.usefixtures("_matmul")
def test_log_probs_may_differ_by_what_tf32_rounds() -> None:
    found = []
    for precision in ("highest", "high", "medium"):
        torch.set_float32_matmul_precision(precision)
        found.append(Limits.of(torch.float32))
        assert Limits.of(torch.float64).mean < 1e-3 < Limits.of(torch.bfloat16).mean
    assert found == [Limits.of(torch.float64), Limits.of(torch.float16), Limits.of(torch.bfloat16)]


@pytest.mark.usefixtures("_matmul")
def test_s4_an_engine_in_a_worker_multiplies_as_the_trainer_does() -> None:
    torch.set_float32_matmul_precision("high")
    assert PolicyOutline.of(TinyPolicy(hidden=8, layers=1).build()).matmul == "high"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("old", ["auto", "rollout"])
@pytest.mark.parametrize(("precision", "dtype"), [("bf16-mixed", "float32"), ("bf16-true", "bfloat16")])
def test_w3_a_healthy_run_in_bf16_raises_no_alarm_on_the_first_pass(precision: str, dtype: str, old: str) -> None:
    alarms = Alarms(only=["first_pass_ratio"])
    module = PolicyOptimization(
        policy=RealSizedPolicy(dtype=dtype),  # type: ignore[arg-type]
        algorithm=GroupRelative(sampler=GroupSampler(group_size=4), old_logprobs=old),  # type: ignore[arg-type]
        rewards={"digits": SmallDigits()},
        engine=TransformersEngine(max_new_tokens=8),
        prompts_per_rollout=8,
        optimizer=lambda p: torch.optim.AdamW(p, lr=1e-4),
    )
    trainer = quiet_trainer(precision=precision, max_epochs=2, callbacks=[alarms])
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=40)))
    assert not alarms.raised


class Dear(TransformersEngine):
    """An engine whose log-probs are not exact."""

    exact_logprobs = False


@pytest.mark.parametrize(
    ("given", "ahead", "dtype", "expected"),
    [
        ({}, 0, torch.float32, "engine"),
        ({}, 0, torch.bfloat16, "step"),
        ({"minibatches": 2}, 0, torch.bfloat16, "pass"),
        ({"epochs": 2}, 0, torch.bfloat16, "pass"),
        ({"kl": KLPenalty(loss_coefficient=0.1)}, 0, torch.bfloat16, "pass"),
        ({"watched": Entropy()}, 0, torch.bfloat16, "pass"),
        ({"critic": ValueHead(), "advantage": GAE()}, 0, torch.bfloat16, "pass"),
        ({}, 1, torch.bfloat16, "engine"),
        ({"correction": TruncatedImportance()}, 1, torch.bfloat16, "pass"),
        ({"correction": TruncatedImportance()}, 0, torch.bfloat16, "pass"),
        ({"correction": TruncatedImportance()}, 0, torch.float32, "pass"),
        ({"old_logprobs": "rollout"}, 0, torch.bfloat16, "engine"),
        ({"old_logprobs": "recompute"}, 0, torch.float32, "pass"),
        ({"old_logprobs": "recompute"}, 0, torch.bfloat16, "pass"),
    ],
    ids=str,
)
def test_old_log_probs_are_the_trainers_where_rounding_is_as_large_as_a_clip(
    given: dict[str, Any], ahead: int, dtype: torch.dtype, expected: str
) -> None:
    algorithm = GroupRelative(**given)
    assert old_from(algorithm, TransformersEngine(), ahead, dtype) == expected
    told = said(algorithm, TransformersEngine(), ahead, dtype)
    decided = "old_logprobs" not in given and dtype == torch.bfloat16
    assert (told is not None) == (decided and expected != "step"), "what costs nothing is not worth a sentence"


@pytest.mark.parametrize(("given", "expected"), [({}, "step"), ({"old_logprobs": "rollout"}, "pass"), ({"minibatches": 2}, "pass")])
def test_log_probs_that_are_not_exact_are_never_the_old_ones(given: dict[str, Any], expected: str) -> None:
    assert old_from(GroupRelative(**given), Dear(), 0, torch.float32) == expected


class CountingLearner(PolicyLearner):
    def outputs(self, *arguments: Any, **options: Any) -> Any:
        self.module.passes += 1
        return super().outputs(*arguments, **options)


class Counting(PolicyOptimization):
    """Counts the trainer's passes over micro-batches, and keeps the largest deviation of a ratio from 1."""

    learner_class = CountingLearner
    passes, deviation = 0, 0.0

    def on_train_batch_end(self, *arguments: Any) -> None:
        self.deviation = max(self.deviation, float(self.numbers["ratio/max_deviation"]))


@pytest.mark.filterwarnings("ignore")
def test_a_single_step_in_bf16_makes_one_pass_whose_ratios_are_1() -> None:
    found: dict[str, tuple[Counting, torch.Tensor]] = {}
    for old in ("auto", "recompute"):
        torch.manual_seed(0)
        module = Counting(
            policy=TinyPolicy(hidden=32, layers=2, dtype="bfloat16"),
            algorithm=GroupRelative(sampler=GroupSampler(group_size=4), old_logprobs=old),  # type: ignore[arg-type]
            rewards={"digits": SmallDigits()},
            engine=TransformersEngine(max_new_tokens=8),
            prompts_per_rollout=8,
            micro_batch_tokens=100,
            optimizer=lambda p: torch.optim.AdamW(p, lr=1e-3),
        )
        quiet_trainer(precision="bf16-true", max_epochs=2).fit(module, datamodule=PromptData(train=DigitSorting(examples=40)))
        found[old] = module, torch.cat([weights.detach().flatten().float() for weights in module.policy.parameters()])
    (own, weights), (anew, expected) = found["auto"], found["recompute"]
    assert own.deviation == 0
    assert own.passes < anew.passes
    # the steps differ by what rounding in micro-batches of other widths does to the ratios
    assert float((weights - expected).norm() / expected.norm()) < 2e-3
