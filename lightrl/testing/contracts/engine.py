"""The contract of every rollout engine."""

from __future__ import annotations

import torch

from lightrl.parts.engine import RolloutEngine
from lightrl.policy.policy import Policy
from lightrl.policy.source import TinyPolicy
from lightrl.testing.checks.check import Make, contract_check, expect, expect_same
from lightrl.testing.checks.state import round_trip
from lightrl.types import Prompt, Rollout

KIND = "rollout engine"
PROMPTS = [Prompt(id="a", text="12="), Prompt(id="b", text="493027=")]


def generate(make: Make[RolloutEngine], version: int = 3) -> tuple[RolloutEngine, Policy, Rollout]:
    """An engine, its policy, and three completions for each of two prompts."""
    part, policy = make(), TinyPolicy(hidden=16, layers=1, heads=2).build()
    part.sync(policy, version)
    return part, policy, part.generate(PROMPTS, 3)


@contract_check(KIND, "rows of a prompt are neighbours and share a group")
def groups(make: Make[RolloutEngine]) -> None:
    """Numbered from 0, stamped with the version of the weights."""
    _, _, rollout = generate(make)
    expect(rollout.group.tolist() == [0, 0, 0, 1, 1, 1], f"of 2 prompts and n=3 the groups are {rollout.group.tolist()}")
    ids = [prompt.id for prompt in rollout.prompts]
    expect(ids == ["a", "a", "a", "b", "b", "b"], f"of prompts a, b and n=3 the rows have prompts {ids}")
    expect(rollout.policy_version == 3, "policy_version must be that of the last sync (3)", policy_version=rollout.policy_version)


@contract_check(KIND, "masks follow from lengths, and the response is what the policy sampled")
def masks(make: Make[RolloutEngine]) -> None:
    """A prefix of tokens, the response inside it, at least one token and no more than the limit."""
    part, _, rollout = generate(make)
    lengths = rollout.attention_mask.sum(1)
    prefix = torch.arange(rollout.input_ids.shape[1]) < lengths[:, None]
    expect(rollout.attention_mask == prefix, "attention_mask must be a prefix of each row", attention_mask=rollout.attention_mask)
    expect(~rollout.response_mask | rollout.attention_mask, "response_mask must lie inside attention_mask")
    sampled = rollout.response_lengths
    limit = part.sampling.max_new_tokens
    expect((sampled > 0) & (sampled <= limit), f"every completion must have 1 to {limit} tokens", lengths=sampled)


@contract_check(KIND, "with exact_logprobs, its log-probs are those of the trainer")
def exact(make: Make[RolloutEngine]) -> None:
    """`exact_logprobs` lets them serve as old log-probs; they are 0 outside the response and never above 0."""
    part, policy, rollout = generate(make)
    found = rollout.rollout_logprobs
    expect(found[~rollout.response_mask] == 0, "log-probs must be 0 outside the response", rollout_logprobs=found)
    expect(found <= 1e-6, "a log-prob is above 0", rollout_logprobs=found)
    if part.exact_logprobs:
        with torch.no_grad():
            ours = policy(rollout.input_ids, rollout.response_mask, rollout.temperature).logprobs
        expect_same(ours, found, "exact_logprobs is declared, but the trainer's forward gives other log-probs", 1e-4)


@contract_check(KIND, "no prompts give no rows")
def empty(make: Make[RolloutEngine]) -> None:
    """An empty rollout of the right form."""
    part, _, _ = generate(make)
    expect(len(part.generate([], 3)) == 0, "generate([], 3) must return a rollout of no rows")


@contract_check(KIND, "after a restart it continues in the same way")
def history(make: Make[RolloutEngine]) -> None:
    """A new engine that took the state back samples the same completions."""
    part, policy, _ = generate(make)
    again = make()
    round_trip(part, again)
    again.sync(policy, 3)
    one, other = part.generate(PROMPTS, 3), again.generate(PROMPTS, 3)
    expect(one.completions == other.completions, f"before: {one.completions}; after a restart: {other.completions}")
