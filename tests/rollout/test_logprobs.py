"""The engine's log-probs are those of the trainer's forward, so that the first ratio is 1."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from lightrl import Policy, Prompt, Rollout
from lightrl.rollout.loop import RolloutLoop
from lightrl.versions import cache_argument, recompute_activations

ARCHITECTURES = ["llama", "llama-eager", "qwen2", "gpt2", "mistral-sliding", "gemma2", "gemma3", "bloom", "lfm2"]
SETTINGS = [
    {"temperature": t, "top_p": p, "top_k": k, "min_p": m}
    for t, p, k, m in itertools.product((1.0, 0.6, 0.0), (1.0, 0.7), (0, 4), (0.0, 0.1))
]
EngineFor = Callable[..., RolloutLoop]
ReadsOf = Callable[[Policy, RolloutLoop], list[tuple[int, int]]]


def assert_ratio_is_one(policy: Policy, rollout: Rollout) -> None:
    with torch.no_grad():
        out = policy(rollout.input_ids, rollout.response_mask, rollout.temperature)
    torch.testing.assert_close(out.logprobs, rollout.rollout_logprobs, atol=1e-5, rtol=0)
    assert rollout.rollout_logprobs.dtype == torch.float32
    assert (rollout.rollout_logprobs[~rollout.response_mask] == 0).all()
    assert (rollout.rollout_logprobs[rollout.response_mask] != 0).any()


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_for_every_way_to_sample(policy: Policy, engine_for: EngineFor, uneven: list[Prompt], setting: dict[str, Any]) -> None:
    rollout = engine_for(policy, **setting).rollout(uneven, 2)
    assert rollout.temperature == (setting["temperature"] or 1.0)
    assert_ratio_is_one(policy, rollout)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_for_every_architecture(
    policy_of: Callable[..., Policy], engine_for: EngineFor, even: list[Prompt], uneven: list[Prompt], architecture: str, temperature: float
) -> None:
    policy = policy_of(architecture)
    engine = engine_for(policy, temperature=temperature)
    for prompts in (even, uneven):
        rollout = engine.rollout(prompts, 4)
        assert len({tuple(row) for row in rollout.input_ids.tolist()}) > 1
        assert_ratio_is_one(policy, rollout)


def test_gradient_checkpointing_does_not_turn_the_cache_off(
    policy: Policy, engine_for: EngineFor, reads_of: ReadsOf, even: list[Prompt]
) -> None:
    with_cache, checkpointing = engine_for(policy), engine_for(policy)
    reads_of(policy, with_cache)
    plain = with_cache.rollout(even, 2)
    recompute_activations(policy.model)
    reads = reads_of(policy, checkpointing)
    rollout = checkpointing.rollout(even, 2)
    assert torch.equal(rollout.input_ids, plain.input_ids)
    assert reads[0][1] == 4
    assert {width for _, width in reads[1:]} == {1}


def test_a_cache_that_stays_empty_is_an_error(policy: Policy, engine_for: EngineFor, even: list[Prompt]) -> None:
    trunk = policy.model.model
    without = {"use_cache": False, cache_argument(trunk.forward): None}
    trunk.register_forward_pre_hook(lambda _, args, inputs: (args, {**inputs, **without}), with_kwargs=True)
    with pytest.raises(RuntimeError, match="key-value cache"):
        engine_for(policy).rollout(even, 1)


def test_nothing_of_the_policy_changes(policy: Policy, engine_for: EngineFor, uneven: list[Prompt]) -> None:
    policy.model.model.layers[0].eval()
    modes = [module.training for module in policy.modules()]
    weights = {name: value.clone() for name, value in policy.state_dict().items()}
    rollout = engine_for(policy).rollout(uneven, 2)
    assert [module.training for module in policy.modules()] == modes
    assert all(torch.equal(value, weights[name]) for name, value in policy.state_dict().items())
    # the rollout enters training, which inference tensors could not
    assert not rollout.rollout_logprobs.is_inference()
    assert not rollout.rollout_logprobs.requires_grad
    policy(rollout.input_ids, rollout.response_mask).logprobs.sum().backward()


def test_the_engine_samples_with_the_live_weights(policy: Policy, engine_for: EngineFor, even: list[Prompt]) -> None:
    engine = engine_for(policy)
    engine.rollout(even, 1)
    with torch.no_grad():
        policy.model.lm_head.weight.mul_(0.5)
    assert_ratio_is_one(policy, engine.rollout(even, 2))


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "gpt2", "mistral-sliding"])
def test_temperature_zero_is_what_generate_does(
    policy_of: Callable[..., Policy], engine_for: EngineFor, uneven: list[Prompt], architecture: str
) -> None:
    policy = policy_of(architecture)
    rollout = engine_for(policy, temperature=0.0, max_new_tokens=20).rollout(uneven, 1)
    policy.model.eval()
    for row, prompt in enumerate(uneven):
        ids = torch.tensor([policy.encode(prompt)])
        # a tokenizer's pad token would end generate's rows early where it is sampled; the mask is all ones
        theirs = policy.model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=20, pad_token_id=0)[0]
        assert rollout.input_ids[row][rollout.attention_mask[row]].tolist() == theirs.tolist()


def test_nan_weights_are_an_error_that_names_a_prompt(policy: Policy, engine_for: EngineFor, even: list[Prompt]) -> None:
    with torch.no_grad():
        policy.model.lm_head.weight[3] = torch.nan
    with pytest.raises(FloatingPointError, match=r"NaN .* 8 of 8 .*'even-0'"):
        engine_for(policy).rollout(even, 2)
