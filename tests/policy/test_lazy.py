"""Weights that stay in their files until a strategy cuts them over its ranks."""

from __future__ import annotations

import copy
import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GPT2Config,
    LlamaConfig,
    MixtralConfig,
    OPTConfig,
    PhiConfig,
    Qwen3Config,
)

from lightrl import LoraPolicy, PeftPolicy, Policy, PretrainedPolicy, TinyPolicy
from lightrl.ops.lazy import LazyParameter, dummy_values, lazy_in, read, values_of

SIZES: dict[str, Any] = {
    "vocab_size": 24,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": 1,
}
MODELS: dict[str, Any] = {
    "separate head": LlamaConfig(**SIZES),
    "tied head": LlamaConfig(**SIZES, tie_word_embeddings=True),
    "norms inside attention": Qwen3Config(**SIZES, head_dim=8),
    "softcap and scaled embeddings": Gemma2Config(**SIZES, head_dim=8),
    "biases, also in the head": PhiConfig(**SIZES),
    "learnt positions": GPT2Config(vocab_size=24, n_embd=32, n_layer=2, n_head=4, n_positions=64, eos_token_id=1, bos_token_id=1),
}
WHOLE: dict[str, tuple[Any, str]] = {
    "experts under other names": (MixtralConfig(**SIZES, num_local_experts=4), "other weights than MixtralForCausalLM has"),
    "a trunk in parts": (
        OPTConfig(
            vocab_size=24, hidden_size=32, ffn_dim=64, num_hidden_layers=1, num_attention_heads=4, word_embed_proj_dim=32, pad_token_id=0
        ),
        "OPTForCausalLM does not run its trunk as one module",
    ),
}


def saved(config: Any, folder: Path, size: str = "1GB") -> PretrainedPolicy:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(config).save_pretrained(folder, max_shard_size=size)
    TinyPolicy().tokenizer().save_pretrained(folder)
    return PretrainedPolicy(str(folder))


def same(one: Policy, other: Policy) -> bool:
    """All weights and buffers, and what the policy says, are equal to the bit."""
    ids = torch.arange(2, 12)[None]
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[:, 0] = False
    tensors, others = ({**dict(policy.named_parameters()), **dict(policy.named_buffers())} for policy in (one, other))
    return (
        tensors.keys() == others.keys()
        and all(torch.equal(tensor, others[name]) and tensor.dtype == others[name].dtype for name, tensor in tensors.items())
        and torch.equal(one(ids, mask).logprobs, other(ids, mask).logprobs)
        and one.model.config.to_dict() == other.model.config.to_dict()
        and one.model.generation_config.to_dict() == other.model.generation_config.to_dict()
        and one.eos_token_ids == other.eos_token_ids
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", MODELS)
def test_once_read_it_is_the_policy_that_was_built_whole(name: str, dtype: Any, tmp_path: Path) -> None:
    source = saved(MODELS[name], tmp_path)
    source.dtype = dtype
    policy = source.build_lazy()
    assert lazy_in(policy) == list(policy.parameters())
    assert all(
        parameter.untyped_storage().nbytes() <= 4 * sum(parameter.shape) + 4 and parameter.isnan().all()
        for parameter in policy.parameters()
    )
    read(policy)
    assert lazy_in(policy) == []
    assert same(policy, source.build())
    assert policy.train().training


@pytest.mark.parametrize("name", WHOLE)
def test_it_is_built_whole_where_the_weights_cannot_stay_and_says_why(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config, reason = WHOLE[name]
    source = saved(config, tmp_path)
    with caplog.at_level(logging.WARNING, logger="lightrl"):
        policy = source.build_lazy()
    assert reason in caplog.text
    assert lazy_in(policy) == []
    assert same(policy, source.build())


def test_files_of_another_format_are_read_whole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = saved(MODELS["tied head"], tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    torch.save(weights, tmp_path / "pytorch_model.bin")
    (tmp_path / "model.safetensors").unlink()
    with caplog.at_level(logging.WARNING, logger="lightrl"):
        policy = source.build_lazy()
    assert "there is no model.safetensors" in caplog.text
    assert same(policy, source.build())


def test_weights_in_several_files_are_found(tmp_path: Path) -> None:
    source = saved(MODELS["separate head"], tmp_path, size="10KB")
    assert (
        len(json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"])
        > len(list(tmp_path.glob("*.safetensors")))
        > 1
    )
    policy = source.build_lazy()
    read(policy)
    assert same(policy, source.build())


def test_a_weight_of_another_shape_is_refused(tmp_path: Path) -> None:
    policy = saved(MODELS["tied head"], tmp_path).build_lazy()
    weights = load_file(tmp_path / "model.safetensors")
    weights["model.norm.weight"] = torch.ones(5)
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"\[32\] has \[5\] in its file"):
        read(policy)


def test_adapters_on_lazy_weights_are_those_on_a_base_that_was_read(tmp_path: Path) -> None:
    base = saved(MODELS["tied head"], tmp_path)
    lazy, whole = LoraPolicy(base, r=2).build_lazy(), LoraPolicy(base, r=2).build()
    assert all(isinstance(parameter, LazyParameter) != parameter.requires_grad for parameter in lazy.parameters())
    assert torch.equal(lazy.base_hash, whole.base_hash), "a checkpoint of one is a checkpoint of the other"
    assert lazy.begins_at_base()
    with torch.no_grad():
        next(p for name, p in lazy.named_parameters() if "lora_B" in name).add_(0.1)
    assert not lazy.begins_at_base()
    lazy = LoraPolicy(base, r=2).build_lazy()
    read(lazy)
    assert same(lazy, whole)


def test_adapters_that_begin_from_the_weights_have_them_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = PeftPolicy(
        saved(MODELS["tied head"], tmp_path), lambda: LoraConfig(r=2, target_modules="all-linear", use_dora=True, task_type="CAUSAL_LM")
    )
    with caplog.at_level(logging.WARNING, logger="lightrl"):
        policy = source.build_lazy()
    assert "the adapters begin from its weights" in caplog.text
    assert same(policy, source.build())


def test_a_copy_stays_lazy_and_is_independent(tmp_path: Path) -> None:
    policy = saved(MODELS["tied head"], tmp_path).build_lazy()
    copied = copy.deepcopy(policy)
    assert len(lazy_in(copied)) == len(lazy_in(policy))
    assert copied.model.lm_head.weight is copied.model.model.embed_tokens.weight
    read(copied)
    assert lazy_in(policy)
    read(policy)
    assert same(copied, policy)
    with torch.no_grad():
        copied.model.lm_head.weight.zero_()
    assert policy.model.lm_head.weight.any()


def test_values_are_seen_without_being_kept_and_dummies_leave_nothing_behind(tmp_path: Path) -> None:
    source = saved(MODELS["tied head"], tmp_path)
    policy, whole = source.build_lazy(), source.build()
    for parameter, known in zip(policy.parameters(), whole.parameters(), strict=True):
        assert torch.equal(values_of(parameter), known)
    assert lazy_in(policy) == list(policy.parameters())
    with dummy_values(policy):
        assert not policy.model(torch.tensor([[3, 4]])).logits.isnan().any()
    assert policy.model(torch.tensor([[3, 4]])).logits.isnan().all()


def test_a_policy_that_needs_no_files_is_built_as_ever() -> None:
    assert same(TinyPolicy().build_lazy(), TinyPolicy().build())
