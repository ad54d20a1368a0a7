"""What a rollout says does not depend on how often the decode loop looks who is finished."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from lightrl_workshop import rollouts_with

from lightrl import Policy, Prompt, Rollout, TransformersEngine
from lightrl.rollout.decode import decoding
from lightrl.rollout.loop import RolloutLoop

sys.path.insert(0, str(Path(__file__).parent))
from hosted_engines import Counting

EngineFor = Callable[..., RolloutLoop]
Looking = Callable[[int], None]


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> Looking:
    """Sets the tokens between two looks."""
    return lambda tokens: monkeypatch.setattr(decoding, "tokens_between_looks", lambda _: tokens)


def expect_same(ours: Rollout, theirs: Rollout) -> None:
    assert torch.equal(ours.input_ids, theirs.input_ids)
    assert torch.equal(ours.response_mask, theirs.response_mask)
    assert ours.finish_reason == theirs.finish_reason
    torch.testing.assert_close(ours.rollout_logprobs, theirs.rollout_logprobs, atol=1e-6, rtol=1e-6)


def test_an_accelerator_is_looked_at_rarely() -> None:
    assert decoding.tokens_between_looks(torch.device("cpu")) == 1
    assert decoding.tokens_between_looks(torch.device("cuda")) == 16


@pytest.mark.parametrize("architecture", ["llama", "gpt2", "gemma3", "lfm2"])
@pytest.mark.parametrize("between", [3, 16])
def test_for_every_cache(
    policy_of: Callable[..., Policy],
    engine_for: EngineFor,
    looking: Looking,
    even: list[Prompt],
    uneven: list[Prompt],
    architecture: str,
    between: int,
) -> None:
    policy = policy_of(architecture)
    # 24 and 33 tokens are no multiples of 16
    at_each = [engine_for(policy, max_new_tokens=n).rollout(prompts, 3) for n in (24, 33) for prompts in (even, uneven)]
    looking(between)
    rarely = [engine_for(policy, max_new_tokens=n).rollout(prompts, 3) for n in (24, 33) for prompts in (even, uneven)]
    assert any("stop" in rollout.finish_reason and "length" in rollout.finish_reason for rollout in at_each)
    for ours, theirs in zip(rarely, at_each, strict=True):
        expect_same(ours, theirs)


def test_rows_may_end_at_the_last_position(policy_of: Callable[..., Policy], looking: Looking, uneven: list[Prompt]) -> None:
    policy = policy_of("gpt2", n_positions=30, max_position_embeddings=30)
    at_each = rollouts_with(policy, TransformersEngine(64)).rollout(uneven, 2)
    looking(16)
    expect_same(rollouts_with(policy, TransformersEngine(64)).rollout(uneven, 2), at_each)


def test_stop_strings_end_rows_where_they_appear(policy: Policy, engine_for: EngineFor, looking: Looking, uneven: list[Prompt]) -> None:
    at_each = engine_for(policy, stop=["1", "+"]).rollout(uneven, 4)
    looking(16)
    rarely = engine_for(policy, stop=["1", "+"]).rollout(uneven, 4)
    expect_same(rarely, at_each)
    assert rarely.completions == at_each.completions


def test_rows_that_are_kept_forget_what_followed_their_end(policy: Policy, looking: Looking, uneven: list[Prompt]) -> None:
    at_each = rollouts_with(policy, TransformersEngine(12), Counting(max_turns=3)).rollout(uneven, 3)
    looking(16)
    expect_same(rollouts_with(policy, TransformersEngine(12), Counting(max_turns=3)).rollout(uneven, 3), at_each)
