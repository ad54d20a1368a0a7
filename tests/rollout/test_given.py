"""Rows of completions that somebody else wrote."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lightrl_workshop import FewCharacters, quiet_trainer, rollouts_with

from lightrl import (
    DigitSorting,
    Environment,
    GroupRelative,
    GroupSampler,
    PolicyOptimization,
    Prompt,
    PromptData,
    Reply,
    ScoredRollout,
    TinyPolicy,
    TransformersEngine,
)

POLICY = TinyPolicy(hidden=16, layers=1, heads=2)
ASKED = [Prompt(id="a", text="31="), Prompt(id="b", text="2"), Prompt(id="a", text="31=")]


def test_they_are_rows_as_the_policy_would_have_sampled_them() -> None:
    policy = POLICY.build()
    loop = rollouts_with(policy, version=3)
    rows = loop.given(ASKED, ["13", "", "13"])
    for i, (prompt, text) in enumerate(zip(ASKED, ["13", "", "13"], strict=True)):
        expected = policy.encode_completion(prompt, text)
        assert rows.input_ids[i][rows.attention_mask[i]].tolist() == expected.ids
        assert rows.response_mask[i].nonzero()[:, 0].tolist() == list(range(expected.response, len(expected.ids)))
        assert rows.episodes[i].messages[-1] == {"role": "assistant", "content": text}
    assert torch.equal(rows.rollout_logprobs.isnan(), rows.response_mask)
    assert rows.group.tolist() == [0, 1, 2]
    assert rows.policy_version.tolist() == [3, 3, 3]
    assert rows.finish_reason == ["stop"] * 3
    assert len(set(rows.seeds.tolist())) == 3
    assert len(loop.given([], [])) == 0


def test_what_is_sampled_beside_them_is_the_same() -> None:
    one, other = rollouts_with(POLICY.build()), rollouts_with(POLICY.build())
    other.given(ASKED, ["1", "2", "3"])
    sampled = one.rollout(ASKED, 2)
    assert torch.equal(sampled.input_ids, other.rollout(ASKED, 2).input_ids)
    assert not set(sampled.seeds.tolist()) & set(other.given(ASKED, ["1", "2", "3"]).seeds.tolist())


class Game(Environment):
    """Would go on after the first turn."""

    runs = "inline"

    def begin(self, prompt: Prompt, seed: int) -> str:
        return "1+1="

    def reply(self, completion: str) -> Reply:
        return Reply("again")


def test_an_environment_cannot_answer_them() -> None:
    with pytest.raises(ValueError, match=r"answers a prompt at once, and Game plays episodes: leave model\.environment out"):
        rollouts_with(POLICY.build(), environment=Game()).given(ASKED[:1], ["1"])


def test_a_row_that_is_too_long_is_refused() -> None:
    policy = POLICY.build()
    positions = policy.max_positions
    assert positions is not None
    with pytest.raises(ValueError, match=rf"prompt 'b' and its given completion have {positions + 2} tokens, and the policy takes rows"):
        rollouts_with(policy).given(ASKED[1:2], ["1" * positions])


class Silent(GroupSampler):
    """Does not say that its rows are given."""

    def collect(self, collection: Any) -> ScoredRollout:
        prompts = collection.draw(collection.prompts)
        return collection.score(collection.given(prompts, ["1"] * len(prompts)))


def test_a_sampler_must_say_so() -> None:
    module = PolicyOptimization(
        policy=POLICY,
        algorithm=GroupRelative(sampler=Silent(group_size=2)),
        rewards={"few": FewCharacters()},
        engine=TransformersEngine(max_new_tokens=4),
        prompts_per_rollout=4,
    )
    with pytest.raises(ValueError, match=r"Silent gives rows that the policy has not sampled, and says .* .* samples_all = False"):
        quiet_trainer(max_epochs=1).fit(module, datamodule=PromptData(train=DigitSorting(examples=40)))
