"""The weights that engines get: whole models, by the names of transformers, with adapters in their place."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import IA3Config, LoHaConfig, LoraConfig

from lightrl import PeftPolicy, Policy, PretrainedPolicy, SavedAdapters, TinyPolicy
from lightrl.policy.weight_access import WeightAccess
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
    merged = dict(copy.deepcopy(policy).merged().hugging_face_tensors(WeightAccess()))
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


@torch.no_grad()
def test_a_saved_folder_holds_the_policy_with_its_adapters(tmp_path: Path) -> None:
    ids = torch.randint(2, 24, (3, 9), generator=torch.Generator().manual_seed(1))
    for name, policy in {"whole": moved(BASE.build()), "adapted": moved(PeftPolicy(BASE, ADAPTERS["DoRA"]).build())}.items():
        TrainerWeights(policy).save(tmp_path / name)
        saved = PretrainedPolicy(str(tmp_path / name)).build()
        torch.testing.assert_close(saved.model(ids).logits, policy.model(ids).logits, atol=1e-5, rtol=1e-5)
        assert saved.tokenizer.encode("12+3=") == policy.tokenizer.encode("12+3=")


def test_adapters_are_saved_alone(tmp_path: Path) -> None:
    policy = moved(PeftPolicy(BASE, ADAPTERS["LoRA"]).build())
    TrainerWeights(policy).save_adapters(tmp_path / "adapters")
    saved = SavedAdapters(BASE, str(tmp_path / "adapters")).build()
    assert given(saved).keys() == given(policy).keys()
    assert all(torch.equal(tensor, given(policy)[name]) for name, tensor in given(saved).items())
    with pytest.raises(ValueError, match="no adapters that could be written alone"):
        TrainerWeights(BASE.build()).save_adapters(tmp_path / "none")


def test_the_first_rank_acts_alone_and_all_hear_of_it() -> None:
    said: list[Any] = []

    class First(WeightAccess):
        def gather(self, value: Any) -> list[Any]:
            said.append(value)
            return [value, None]

    class Second(WeightAccess):
        rank = 1

        def gather(self, value: Any) -> list[Any]:
            return [said[-1], value]

    policy = BASE.build()
    ranks = [TrainerWeights(policy, First()), TrainerWeights(policy, Second())]
    acted: list[int] = []
    assert [weights.on_first_rank(lambda: acted.append(1) or 7) for weights in ranks] == [7, 7]
    assert acted == [1]
    with pytest.raises(ZeroDivisionError):
        ranks[0].on_first_rank(lambda: 1 // 0)
    with pytest.raises(RuntimeError, match=r"the first rank could not go on: ZeroDivisionError"):
        ranks[1].on_first_rank(lambda: 7)


@torch.no_grad()
def test_log_probs_behind_a_context_are_those_of_the_model() -> None:
    policy = moved(BASE.build())
    logits = policy.model(torch.tensor([[4, 5, 6, 7, 8]])).logits[0]
    expected = [(logits[2] / 0.7).log_softmax(-1)[7], (logits[3] / 0.7).log_softmax(-1)[8]]
    assert TrainerWeights(policy).logprobs([4, 5, 6], [7, 8], 0.7) == pytest.approx([float(p) for p in expected], abs=1e-5)
