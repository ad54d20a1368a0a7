"""The lean decode step gives what the model's own forward gives, and models of another form keep theirs."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lightrl_workshop import rollouts_with
from peft import LoraConfig, get_peft_model
from torch import nn

from lightrl import LoraPolicy, Policy, Prompt, Rollout, TinyPolicy, TransformersEngine
from lightrl.policy.head import ScoringHead
from lightrl.rollout.decode import decode_attention, lean_step, step_choice
from lightrl.rollout.decode.incremental import IncrementalModel
from lightrl.rollout.decode.lean_step import LeanStep, has_lean_form
from lightrl.rollout.decode.model_forward import ModelForward
from lightrl.rollout.decode.step_choice import StepChoice
from lightrl.rollout.loop import RolloutLoop

PolicyOf = Callable[..., Policy]
EngineFor = Callable[..., RolloutLoop]
LEAN = ["llama", "llama-eager", "qwen2", "qwen3", "mistral"]
OTHERS = ["gpt2", "mistral-sliding", "gemma2", "gemma3", "bloom", "lfm2"]


@pytest.fixture
def plainly(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on no model has the lean form."""
    return lambda: monkeypatch.setattr(lean_step, "TYPES", frozenset())


def chosen(policy: Policy) -> type:
    policy.model.eval()
    with torch.no_grad():
        return type(StepChoice(policy.model, policy.max_positions).step())


def expect_same(ours: Rollout, theirs: Rollout, within: float = 1e-6) -> None:
    assert torch.equal(ours.input_ids, theirs.input_ids)
    assert ours.finish_reason == theirs.finish_reason
    torch.testing.assert_close(ours.rollout_logprobs, theirs.rollout_logprobs, atol=within, rtol=within)


@pytest.mark.parametrize("architecture", LEAN)
@pytest.mark.parametrize("tied", [False, True], ids=["own head", "tied"])
@pytest.mark.parametrize("many", [0, decode_attention.MANY], ids=["tables", "fused attention"])
def test_tokens_and_logprobs_are_those_of_the_models_forward(
    monkeypatch: pytest.MonkeyPatch,
    policy_of: PolicyOf,
    engine_for: EngineFor,
    plainly: Callable[[], None],
    even: list[Prompt],
    uneven: list[Prompt],
    architecture: str,
    tied: bool,
    many: int,
) -> None:
    monkeypatch.setattr(decode_attention, "MANY", many)
    monkeypatch.setattr(decode_attention, "mkl_is_quick", lambda: many > 0)
    policy = policy_of(architecture, scale=3.0, tie_word_embeddings=tied)
    assert chosen(policy) is LeanStep
    ours = [engine_for(policy, max_new_tokens=40).rollout(prompts, 3) for prompts in (even, uneven)]
    plainly()
    assert chosen(policy) is ModelForward
    for mine, prompts in zip(ours, (even, uneven), strict=True):
        expect_same(mine, engine_for(policy, max_new_tokens=40).rollout(prompts, 3))


@pytest.mark.parametrize("rope_type", ["linear", "llama3", "yarn"])
def test_scaled_positions_are_those_of_the_model(
    policy_of: PolicyOf, engine_for: EngineFor, plainly: Callable[[], None], uneven: list[Prompt], rope_type: str
) -> None:
    scaling: dict[str, Any] = {"rope_type": rope_type, "rope_theta": 1e4, "factor": 4.0}
    if rope_type == "llama3":
        scaling |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
    policy = policy_of("llama", rope_parameters=scaling)
    assert chosen(policy) is LeanStep
    ours = engine_for(policy, max_new_tokens=60).rollout(uneven, 2)
    plainly()
    expect_same(ours, engine_for(policy, max_new_tokens=60).rollout(uneven, 2))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions(policy_of: PolicyOf, dtype: torch.dtype, plainly: Callable[[], None], uneven: list[Prompt]) -> None:
    policy = policy_of("qwen3", scale=3.0)
    policy.model.to(dtype)
    assert chosen(policy) is LeanStep
    ours = rollouts_with(policy, TransformersEngine(8)).rollout(uneven, 2)
    plainly()
    theirs = rollouts_with(policy, TransformersEngine(8)).rollout(uneven, 2)
    if dtype == torch.float64:
        expect_same(ours, theirs)
    else:
        # the first tokens come from one and the same prefill
        assert torch.equal(ours.input_ids[:, :2], theirs.input_ids[:, :2])


def test_adapters_take_part(plainly: Callable[[], None], uneven: list[Prompt]) -> None:
    policy = LoraPolicy(TinyPolicy(hidden=32), r=4).build()
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            if "lora" in name:
                parameter.normal_(std=0.3)
    assert chosen(policy) is LeanStep
    ours = rollouts_with(policy, TransformersEngine(16)).rollout(uneven, 2)
    with policy.base():
        base = rollouts_with(policy, TransformersEngine(16)).rollout(uneven, 2)
    plainly()
    expect_same(ours, rollouts_with(policy, TransformersEngine(16)).rollout(uneven, 2))
    assert not torch.equal(base.input_ids, ours.input_ids)


@pytest.mark.parametrize(
    "kind",
    [
        "bias",
        "no bias",
        "Intel",
        "Intel by oneDNN",
        "Intel with AVX2",
        "head",
        "AVX-512",
        "ARM",
        "adapters",
        "both adapters",
        "DoRA",
        "off",
        "merged",
        "heard",
        "bfloat16",
    ],
)
def test_products_are_those_of_the_layer(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = nn.Sequential(nn.Linear(48, 80, bias=kind != "no bias"))
    intel = kind.startswith("Intel")
    monkeypatch.setattr(lean_step, "mkl_is_quick", lambda: intel)
    if intel:
        monkeypatch.setattr(lean_step, "_few_rows", None)
    if kind == "Intel by oneDNN":
        monkeypatch.setattr(torch.ops, "mkl", None)
    if kind == "Intel with AVX2":
        # of MKL nothing may be called
        monkeypatch.setattr(torch.ops, "mkl", SimpleNamespace(_mkl_linear=None, _mkl_reorder_linear_weight=None))
    if kind in ("head", "Intel with AVX2"):
        monkeypatch.setattr(lean_step, "LARGE_HEAD", 80)
    if kind == "AVX-512" or intel:
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2" if kind == "Intel with AVX2" else "AVX512")
        monkeypatch.setattr(lean_step, "SMALL", 0)
    if kind == "bfloat16":
        monkeypatch.setattr(lean_step, "SMALL", 0)
        model.to(torch.bfloat16)
    if kind == "ARM":
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    if not intel and kind not in ("bias", "no bias", "head", "AVX-512", "ARM", "bfloat16"):
        adapted: Any = get_peft_model(model, LoraConfig(r=4, target_modules=["0"], use_dora=kind == "DoRA", init_lora_weights=False))
        adapted.add_adapter("second", LoraConfig(r=2, target_modules=["0"], init_lora_weights=False))
        model = adapted.base_model.model
        if kind == "both adapters":
            adapted.base_model.set_adapter(["default", "second"])
        elif kind == "off":
            adapted.base_model.disable_adapter_layers()
        elif kind == "merged":
            adapted.base_model.merge_adapter()
    layer = model.eval()[0]
    if kind == "heard":
        layer.base_layer.register_forward_hook(lambda _, __, out: 2 * out)
    with torch.no_grad():
        product = lean_step.product(layer)
        assert (product is layer) == (kind in ("ARM", "DoRA", "off", "merged", "heard"))
        for rows in (1, 2, 4, 5, 33, 200):
            states, within = torch.randn(rows, 48), 1e-2 if kind == "bfloat16" else 1e-5
            torch.testing.assert_close(product(states), layer(states.to(layer.weight.dtype)), atol=within, rtol=within)


def test_only_products_in_the_format_of_their_weights_are_taken() -> None:
    layer = nn.Linear(48, 80)
    adapted: Any = get_peft_model(nn.Sequential(nn.Linear(48, 80)).to(torch.bfloat16), LoraConfig(r=4, target_modules=["0"]))
    with torch.autocast("cpu", torch.bfloat16):
        assert lean_step.product(layer) is layer
    assert lean_step.product(layer.to(torch.bfloat16)) is not layer
    small = adapted.base_model.model[0]
    assert lean_step.product(small) is small, "a small adapter would be rounded away"


@pytest.mark.parametrize("large", [False, True])
def test_under_autocast_the_logits_of_a_float32_head_are_not_rounded(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    head = nn.Linear(48, 80)
    ScoringHead.take_over(head)
    monkeypatch.setattr(lean_step, "LARGE_HEAD", 80 if large else 81)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        product = lean_step.product(head)
        for rows in (1, 2, 3, 33):
            states = torch.randn(rows, 48)
            found = product(states)
            assert found.dtype == torch.float32
            torch.testing.assert_close(found, head(states), atol=1e-5, rtol=1e-5)


def test_an_mlp_of_another_kind_is_called_itself(policy_of: PolicyOf, engine_for: EngineFor, even: list[Prompt]) -> None:
    class Halved(nn.Module):
        def forward(self, states: torch.Tensor) -> torch.Tensor:
            return states / 2

    policy = policy_of("llama")
    policy.model.model.layers[0].mlp = Halved()
    assert chosen(policy) is LeanStep
    called: list[int] = []
    policy.model.model.layers[1].mlp.register_forward_hook(lambda *_: called.append(1))
    engine_for(policy, max_new_tokens=4).rollout(even, 2)
    assert len(called) > 4


@pytest.mark.parametrize("architecture", OTHERS)
def test_models_of_another_form_keep_their_forward(policy_of: PolicyOf, architecture: str) -> None:
    assert chosen(policy_of(architecture)) is ModelForward


@pytest.mark.parametrize("change", ["residual", "attention", "rope_type"])
def test_a_model_that_differs_from_its_name_keeps_its_forward(policy_of: PolicyOf, change: str) -> None:
    policy = policy_of("llama")
    first = policy.model.model.layers[0]
    if change == "residual":
        first.register_forward_hook(lambda _, __, out: out * 1.01)
    elif change == "attention":
        first.self_attn.register_forward_hook(lambda _, __, out: (out[0] * 1.01, *out[1:]))
    else:
        policy.model.config.rope_parameters = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
    assert chosen(policy) is ModelForward


def test_a_head_of_zeros_hides_no_difference(policy_of: PolicyOf) -> None:
    policy = policy_of("llama")
    with torch.no_grad():
        policy.model.lm_head.weight.zero_()
    assert chosen(policy) is LeanStep
    policy.model.model.layers[0].mlp.register_forward_hook(lambda _, __, out: out * 1.01)
    assert chosen(policy) is LeanStep, "the module is the model's own"
    policy.model.model.layers[0].self_attn.register_forward_hook(lambda _, __, out: (out[0] * 1.01, *out[1:]))
    assert chosen(policy) is ModelForward


def test_a_step_is_tried_once(policy: Policy, engine_for: EngineFor, even: list[Prompt], monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    asked = has_lean_form
    monkeypatch.setattr(step_choice, "has_lean_form", lambda model: tried.append(1) or asked(model))
    engine = engine_for(policy)
    for _ in range(3):
        engine.rollout(even, 2)
    assert tried == [1]


@pytest.mark.parametrize("lone", [True, False])
def test_a_step_that_is_wrong_for_a_lone_row_or_for_several_is_not_taken(
    policy_of: PolicyOf, monkeypatch: pytest.MonkeyPatch, lone: bool
) -> None:
    right = LeanStep.logits

    def logits(self: LeanStep, tokens: torch.Tensor, *rest: Any) -> torch.Tensor:
        return right(self, tokens, *rest) * (1.01 if (len(tokens) == 1) == lone else 1.0)

    monkeypatch.setattr(LeanStep, "logits", logits)
    assert chosen(policy_of("llama")) is ModelForward


@pytest.mark.parametrize("architecture", ["llama", "mistral-sliding", "lfm2"])
@torch.no_grad()
def test_a_batch_stays_where_it_is_while_another_one_branches_off(policy_of: PolicyOf, architecture: str) -> None:
    model = policy_of(architecture).model.eval()
    batch, token = IncrementalModel(model, None, lambda: ModelForward(model)), torch.tensor([6])
    batch.prefill([[2, 3, 4]], [1])
    other = batch.branched(ModelForward(model))
    branch = [other.step(token), other.step(token)]
    assert torch.equal(batch.step(token), branch[0])
    assert torch.equal(batch.step(token), branch[1])


def test_padding_where_a_model_has_no_last_position(policy_of: PolicyOf) -> None:
    model = policy_of("llama").model.eval()
    steps = []
    for last in (None, 96):
        batch = IncrementalModel(model, last, lambda: ModelForward(model))
        with torch.no_grad():
            batch.prefill([[2, 3, 4], [5]], [1, 1])
            steps.append(batch.step(torch.tensor([6, 7])))
    assert torch.equal(*steps)


@pytest.mark.parametrize("rows", [1, 2, 4, 8])
@pytest.mark.parametrize("width", [16, 512])
def test_what_a_row_gives_has_its_numbers_side_by_side(rows: int, width: int) -> None:
    layer, states = nn.Linear(width, 256, bias=False), torch.randn(rows, width)
    with torch.no_grad():
        found = lean_step.product(layer)(states)
        torch.testing.assert_close(found, layer(states))
    assert found.is_contiguous()
