"""Adapters on a frozen base: the base stays, the adapters learn, and turned off they are the reference."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import AdaLoraConfig, LoHaConfig, LoraConfig, PrefixTuningConfig
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM

from lightrl import BaseReference, FrozenReference, LoraPolicy, PeftPolicy, Policy, PretrainedPolicy, SavedAdapters, TinyPolicy, ValueModel
from lightrl.callbacks.export_policy import write_policy
from lightrl.policy.tiny import ALPHABET, character_tokenizer

BASE = TinyPolicy(hidden=16, layers=2, heads=2)
IDS = torch.randint(2, 24, (3, 9), generator=torch.Generator().manual_seed(1))
MASK = torch.ones_like(IDS, dtype=torch.bool).index_fill_(1, torch.tensor([0]), False)


def lora(**arguments: Any) -> LoraPolicy:
    return LoraPolicy(BASE, **{"r": 2, **arguments})


@torch.no_grad()
def logprobs(policy: Policy) -> torch.Tensor:
    return policy(IDS, MASK).logprobs


@torch.no_grad()
def moved(policy: Policy) -> Policy:
    for parameter in policy.parameters():
        if parameter.requires_grad:
            parameter.add_(0.1)
    return policy


def qwen(folder: Path, tied: bool = False) -> PretrainedPolicy:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=24, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        max_position_embeddings=64, tie_word_embeddings=tied, pad_token_id=0, bos_token_id=None, eos_token_id=1,
    )  # fmt: skip
    Policy(Qwen2ForCausalLM(config), character_tokenizer(ALPHABET, 64)).save(folder)
    return PretrainedPolicy(str(folder))


def test_only_adapters_are_trained_and_the_base_is_untouched() -> None:
    policy, base = lora().build(), BASE.build()
    # q, k, v, o: [16 -> 16] each; gate, up: [16 -> 64]; down: [64 -> 16]; two layers, rank 2
    assert sum(p.numel() for p in policy.parameters() if p.requires_grad) == 2 * 2 * (4 * (16 + 16) + 3 * (16 + 64)) == lora().trainable()
    assert lora().parameters() == BASE.parameters() + lora().trainable()
    assert all(("lora_" in name) == p.requires_grad for name, p in policy.named_parameters())
    policy(IDS, MASK).logprobs.sum().backward()
    with_gradient = {name for name, p in policy.named_parameters() if p.grad is not None}
    assert with_gradient == {name for name, p in policy.named_parameters() if p.requires_grad}
    moved(policy)
    with policy.base():
        assert torch.equal(logprobs(policy), logprobs(base))
    assert not torch.allclose(logprobs(policy), logprobs(base), atol=1e-3)


@pytest.mark.parametrize(
    ("targets", "chunked"),
    [("all-linear", True), (["q_proj", "v_proj"], True), (["q_proj", "lm_head"], False)],
    ids=["all", "some", "head"],
)
def test_log_probs_are_those_of_the_models_own_logits(tmp_path: Path, targets: str | list[str], chunked: bool) -> None:
    policy = moved(LoraPolicy(qwen(tmp_path), r=2, target_modules=targets).build())
    assert policy._chunked == chunked
    with torch.no_grad():
        expected = policy.model(IDS).logits[:, :-1].log_softmax(-1).gather(2, IDS[:, 1:, None])[..., 0]
    assert torch.allclose(logprobs(policy)[:, 1:], expected, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`")
def test_a_head_that_is_also_the_embedding_is_not_adapted(tmp_path: Path) -> None:
    source = LoraPolicy(qwen(tmp_path, tied=True), target_modules=["lm_head"])
    with pytest.raises(ValueError, match="lm_head"):
        source.build()


def test_the_reference_is_the_base_at_no_cost() -> None:
    policy, reference = lora().build(), FrozenReference()
    first = logprobs(policy)
    reference.build(policy)
    assert reference._anchor is None
    for _ in range(2):
        moved(policy)
        with reference.anchor(policy) as anchor:
            assert torch.equal(logprobs(anchor), first)
    assert all(p.requires_grad == ("lora_" in name) for name, p in policy.named_parameters())


def test_adapters_that_have_learnt_something_need_the_reference_to_be_named(tmp_path: Path) -> None:
    moved(lora().build()).save(tmp_path)
    policy = SavedAdapters(BASE, str(tmp_path)).build()
    with pytest.raises(ValueError, match="BaseReference"):
        FrozenReference().build(policy)
    reference = BaseReference()
    reference.build(policy)
    with reference.anchor(policy) as anchor:
        assert torch.equal(logprobs(anchor), logprobs(BASE.build()))
    with pytest.raises(ValueError, match="this policy has none"):
        reference.build(BASE.build())


def test_a_state_holds_adapters_and_fits_their_base_alone() -> None:
    policy = moved(lora().build())
    state = policy.state_dict()
    assert set(state) == {"base_hash"} | {name for name, p in policy.named_parameters() if p.requires_grad}
    again = lora(seed=5).build()
    again.load_state_dict(state)
    assert torch.equal(logprobs(again), logprobs(policy))
    for other in (TinyPolicy(hidden=16, layers=2, heads=2, seed=1), TinyPolicy(hidden=16, layers=2, heads=2, dtype="bfloat16")):
        with pytest.raises(ValueError, match="dtype"):
            LoraPolicy(other, r=2).build().load_state_dict(state)
    with pytest.raises(RuntimeError, match="lora_A"):
        again.load_state_dict({name: value for name, value in state.items() if "lora_A" not in name})


@pytest.mark.parametrize("tied", [True, False])
def test_merged_adapters_are_one_plain_model(tmp_path: Path, tied: bool) -> None:
    policy = moved(LoraPolicy(qwen(tmp_path / "base", tied), r=2).build())
    expected = logprobs(policy)
    merged = copy.deepcopy(policy).merged()
    assert torch.equal(logprobs(policy), expected), "the policy itself was not changed"
    assert torch.allclose(logprobs(merged), expected, atol=1e-6)
    write_policy(merged, tmp_path / "merged")
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert (plain.lm_head.weight is plain.model.embed_tokens.weight) == tied
    assert plain.config.vocab_size == 24
    with torch.no_grad():
        theirs = plain(IDS).logits[:, :-1].log_softmax(-1).gather(2, IDS[:, 1:, None])[..., 0]
    assert torch.allclose(theirs, expected[:, 1:], atol=1e-5)


def test_checkpointed_activations_give_the_same_gradients(tmp_path: Path) -> None:
    found = []
    qwen(tmp_path)
    for checkpointing in (False, True):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            base = PretrainedPolicy(str(tmp_path), gradient_checkpointing=checkpointing)
            policy = moved(LoraPolicy(base, r=2).build())
            policy(IDS, MASK).logprobs.sum().backward()
        found.append([p.grad for p in policy.parameters() if p.grad is not None])
    assert len(found[0]) == len(found[1]) == 28
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(*found, strict=True))


def test_adapters_on_a_16_bit_base_are_float32() -> None:
    policy = LoraPolicy(TinyPolicy(hidden=16, layers=1, heads=2, dtype="bfloat16"), r=2).build()
    assert {p.dtype for p in policy.parameters() if p.requires_grad} == {torch.float32}
    assert {p.dtype for p in policy.parameters() if not p.requires_grad} == {torch.bfloat16}
    assert policy(IDS, MASK).logprobs.dtype == torch.float32


def test_a_value_model_starts_from_the_policy_and_is_trained_whole() -> None:
    policy = lora().build()
    critic = ValueModel().build(policy)
    assert not any("lora_" in name for name, _ in critic.named_parameters())
    assert all(p.requires_grad for p in critic.parameters())


def test_any_method_of_peft_that_works_inside_layers() -> None:
    source = PeftPolicy(BASE, lambda: LoHaConfig(r=2, target_modules=["q_proj"]))
    policy, reference = source.build(), FrozenReference()
    reference.build(policy)
    assert source.trainable() == sum(p.numel() for p in policy.parameters() if p.requires_grad) > 0
    assert torch.equal(logprobs(policy), logprobs(BASE.build()))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (lambda: LoraConfig(lora_dropout=0.1), "lora_dropout must be 0"),
        (lambda: LoraConfig(bias="all"), "bias is 'all'"),
        (lambda: LoraConfig(init_lora_weights="pissa"), "changes the base"),
        (lambda: AdaLoraConfig(total_step=10), "AdaLoRA"),
        (lambda: PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2), "works on the prompt"),
        (lambda: LoraConfig(target_modules=["qproj"]), "Linear layers: down_proj, gate_proj"),
    ],
    ids=["dropout", "bias", "init", "adalora", "prefix", "targets"],
)
def test_what_would_silently_be_wrong_is_refused(config: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PeftPolicy(BASE, config).build()


def test_a_folder_of_adapters_is_no_policy_and_says_what_it_is(tmp_path: Path) -> None:
    lora().build().save(tmp_path)
    with pytest.raises(ValueError, match="SavedAdapters"):
        PretrainedPolicy(str(tmp_path)).build()
    with pytest.raises(ValueError, match="adapter_config"):
        SavedAdapters(BASE, str(tmp_path / "elsewhere")).build()
    with pytest.raises(ValueError, match="base"):
        SavedAdapters(TinyPolicy(hidden=32, layers=1), str(tmp_path)).build()
