"""The contract of every reference."""

from __future__ import annotations

import torch
from torch import Tensor

from lightrl.parts.reference import ModuleReference, Reference
from lightrl.policy.lora import LoraPolicy
from lightrl.policy.policy import Policy
from lightrl.policy.tiny import TinyPolicy
from lightrl_workshop.checks.check import Make, contract_check, expect, expect_same, expect_shape, round_trip

KIND = "reference"
IDS = torch.tensor([[3, 5, 7, 9], [4, 6, 8, 2]])
MASK = torch.tensor([[False, True, True, True]] * 2)


def tiny(part: Reference) -> Policy:
    """A policy that costs nothing, with adapters where the reference is made of them."""
    source = TinyPolicy(hidden=8, layers=1, heads=2)
    return LoraPolicy(source, r=2).build() if part.wants_adapters else source.build()


def logprobs(part: Reference, policy: Policy) -> Tensor:
    """The log-probs of two rows under the anchor."""
    with torch.no_grad():
        return part.logprobs(policy, IDS, MASK)


@torch.no_grad()
def move(policy: Policy) -> None:
    """As an optimizer step would."""
    for parameter in policy.parameters():
        if parameter.requires_grad:
            parameter.mul_(1.2).add_(0.05)


@contract_check(KIND, "before the first step it is the policy, or one of its own if it says so")
def at_first(make: Make[Reference]) -> None:
    part, other = make(), make()
    policy = tiny(part)
    part.build(policy)
    if part.starts_as_policy:
        with torch.no_grad():
            now = policy(IDS, MASK).logprobs
        expect_same(now, logprobs(part, policy), "the reference differs from the policy it was built from", input_ids=IDS)
        return
    changed = tiny(part)
    move(changed)
    other.build(changed)
    what = "starts_as_policy is False, and beside another policy the reference is another one"
    expect_same(logprobs(part, policy), logprobs(other, changed), what, input_ids=IDS)


@contract_check(KIND, "the log-probs are those of the selected tokens alone, at their temperature")
def selected(make: Make[Reference]) -> None:
    part = make()
    policy = tiny(part)
    part.build(policy)
    fewer = MASK & (torch.arange(MASK.shape[1]) != 2)
    with torch.no_grad():
        whole, some = part.logprobs(policy, IDS, MASK), part.logprobs(policy, IDS, fewer)
        wide = part.logprobs(policy, torch.nn.functional.pad(IDS, (0, 2)), torch.nn.functional.pad(MASK, (0, 2)))
        warm = part.logprobs(policy, IDS, MASK, 2.0)
    expect_shape(whole, list(IDS.shape), "the log-probs", input_ids=IDS)
    expect(whole[~MASK] == 0, "log-probs must be 0 where no token is selected", found=whole)
    expect(whole[MASK] <= 0, "a log-prob is above 0", found=whole)
    expect_same(torch.where(fewer, whole, 0.0), some, "a token that is not selected changes the log-probs of others", input_ids=IDS)
    expect_same(whole, wide[:, : IDS.shape[1]], "padding changes the log-probs", input_ids=IDS)
    expect(not torch.equal(whole, warm), "the temperature has no influence", found=whole)


@contract_check(KIND, "it stays as it is while the policy changes")
def stays(make: Make[Reference]) -> None:
    """Only `after_step` may move it; its weights are not trained."""
    part = make()
    policy = tiny(part)
    part.build(policy)
    before = logprobs(part, policy)
    move(policy)
    expect_same(before, logprobs(part, policy), "the reference moves with the policy", input_ids=IDS)
    if not isinstance(part, ModuleReference):
        return
    with part.anchor(policy) as anchor:
        if anchor is not policy:
            expect(not any(p.requires_grad for p in anchor.parameters()), "the reference's weights would be trained")


@contract_check(KIND, "its history survives a restart")
def history(make: Make[Reference]) -> None:
    part, again = make(), make()
    policy = tiny(part)
    part.build(policy)
    again.build(policy)
    for step in (1, 2, 3):
        move(policy)
        part.after_step(policy, step)
    round_trip(part, again)
    expect_same(logprobs(part, policy), logprobs(again, policy), "after a restart the reference is another one", input_ids=IDS)
