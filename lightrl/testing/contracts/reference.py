"""The contract of every reference."""

from __future__ import annotations

import torch
from torch import Tensor

from lightrl.parts.reference import Reference
from lightrl.policy.lora import LoraPolicy
from lightrl.policy.policy import Policy
from lightrl.policy.source import TinyPolicy
from lightrl.testing.checks.check import Make, contract_check, expect, expect_same
from lightrl.testing.checks.state import round_trip

KIND = "reference"
IDS = torch.tensor([[3, 5, 7, 9], [4, 6, 8, 2]])
MASK = torch.tensor([[False, True, True, True]] * 2)


def tiny(part: Reference) -> Policy:
    """A policy that costs nothing, with adapters where the reference is made of them."""
    source = TinyPolicy(hidden=8, layers=1, heads=2)
    return LoraPolicy(source, r=2).build() if part.wants_adapters else source.build()


def logprobs(part: Reference, policy: Policy) -> Tensor:
    """The log-probs of two rows under the anchor."""
    with torch.no_grad(), part.anchor(policy) as anchor:
        found: Tensor = anchor(IDS, MASK).logprobs
    return found


@torch.no_grad()
def move(policy: Policy) -> None:
    """As an optimizer step would."""
    for parameter in policy.parameters():
        if parameter.requires_grad:
            parameter.mul_(1.2).add_(0.05)


@contract_check(KIND, "before the first step it is the policy")
def at_first(make: Make[Reference]) -> None:
    """Before the first step both say the same."""
    part = make()
    policy = tiny(part)
    part.build(policy)
    with torch.no_grad():
        expect_same(
            policy(IDS, MASK).logprobs, logprobs(part, policy), "the reference differs from the policy it was built from", input_ids=IDS
        )


@contract_check(KIND, "it stays as it is while the policy changes")
def stays(make: Make[Reference]) -> None:
    """Only `after_step` may move it; its weights are not trained."""
    part = make()
    policy = tiny(part)
    part.build(policy)
    before = logprobs(part, policy)
    move(policy)
    expect_same(before, logprobs(part, policy), "the reference moves with the policy", input_ids=IDS)
    with part.anchor(policy) as anchor:
        if anchor is not policy:
            expect(not any(p.requires_grad for p in anchor.parameters()), "the reference's weights would be trained")


@contract_check(KIND, "its history survives a restart")
def history(make: Make[Reference]) -> None:
    """After a step, a new instance built from the first policy that took the state back says the same."""
    part, again = make(), make()
    policy = tiny(part)
    part.build(policy)
    again.build(policy)
    for step in (1, 2, 3):
        move(policy)
        part.after_step(policy, step)
    round_trip(part, again)
    expect_same(logprobs(part, policy), logprobs(again, policy), "after a restart the reference is another one", input_ids=IDS)
