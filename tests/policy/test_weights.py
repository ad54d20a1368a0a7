"""The weights that engines get: whole models, by the names of transformers, with adapters in their place."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from peft import IA3Config, LoHaConfig, LoraConfig

from lightrl import PeftPolicy, Policy, TinyPolicy
from lightrl.policy.weights import TrainerWeights

BASE = TinyPolicy(hidden=16, layers=2, heads=2)
ADAPTERS: dict[str, Callable[[], Any]] = {
    "LoRA": lambda: LoraConfig(r=2, lora_alpha=3, target_modules="all-linear"),
    "rank-stabilised": lambda: LoraConfig(r=2, use_rslora=True, target_modules=["q_proj"]),
    "DoRA": lambda: LoraConfig(r=2, use_dora=True, target_modules=["q_proj", "down_proj"]),
    "LoHa": lambda: LoHaConfig(r=2, target_modules=["q_proj"]),
    "IA3": lambda: IA3Config(target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"]),
    "whole modules too": lambda: LoraConfig(r=2, target_modules=["q_proj"], modules_to_save=["mlp"]),
}


@torch.no_grad()
def moved(policy: Policy) -> Policy:
    torch.manual_seed(0)
    for parameter in policy.parameters():
        if parameter.requires_grad:
            parameter.add_(0.1 * torch.randn_like(parameter))
    return policy


def given(policy: Policy) -> dict[str, torch.Tensor]:
    named = [(name, tensor.clone()) for name, tensor in TrainerWeights(policy).tensors()]
    assert len(dict(named)) == len(named), "each comes once"
    return dict(named)


def test_a_whole_policy_gives_what_it_is_saved_as() -> None:
    policy = BASE.build()
    expected = policy.model.state_dict()
    assert policy.model.config.tie_word_embeddings
    found = given(policy)
    assert found.keys() == expected.keys() - {"lm_head.weight"}, "what is tied comes once"
    assert all(torch.equal(tensor, expected[name]) for name, tensor in found.items())
    assert not any(tensor.requires_grad for _, tensor in TrainerWeights(policy).tensors())


@pytest.mark.parametrize("adapters", ADAPTERS.values(), ids=ADAPTERS)
def test_adapters_come_in_the_weights_that_they_adapt(adapters: Callable[[], Any]) -> None:
    policy = moved(PeftPolicy(BASE, adapters).build())
    merged = dict(copy.deepcopy(policy).merged().hugging_face_tensors())
    before = {name: tensor.clone() for name, tensor in policy.model.state_dict().items()}
    found = given(policy)
    assert found.keys() == merged.keys() == BASE.build().model.state_dict().keys() - {"lm_head.weight"}
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, merged[name], atol=1e-6, rtol=1e-6, msg=name)
    assert all(torch.equal(tensor, before[name]) for name, tensor in policy.model.state_dict().items()), "the policy is as it was"


@torch.no_grad()
def test_a_model_with_the_given_weights_says_what_the_adapted_policy_says() -> None:
    policy = moved(PeftPolicy(BASE, ADAPTERS["DoRA"]).build())
    model = BASE.build().model
    model.load_state_dict(given(policy), strict=False)
    ids = torch.randint(2, 24, (3, 9), generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(model(ids).logits, policy.model(ids).logits, atol=1e-5, rtol=1e-5)
