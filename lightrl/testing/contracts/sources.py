"""The contract of every prompt source and every policy source."""

from __future__ import annotations

import json

import torch

from lightrl.policy.policy import Policy
from lightrl.testing.contracts.check import Make, contract_check, expect
from lightrl.types import Prompt

SOME = 50
"""Prompts looked at, at most."""


@contract_check("prompt source", "the same number gives the same prompt, always")
def stable(make: Make) -> None:
    """In any order and from any instance, with ids that are unique."""
    one, other = make(), make()
    one.prepare()
    other.prepare()
    count = SOME if one.size is None else min(SOME, one.size)
    expect(count > 0, "it has no prompt")
    forth, back = [one.prompt(i) for i in range(count)], [other.prompt(i) for i in reversed(range(count))][::-1]
    for i, (first, second) in enumerate(zip(forth, back, strict=True)):
        expect(first == second, f"prompt {i} is {first} or {second}")
    ids = [prompt.id for prompt in forth]
    expect(len(set(ids)) == count, f"ids are not unique: {sorted({i for i in ids if ids.count(i) > 1})}")


@contract_check("prompt source", "its prompts are JSON values")
def plain(make: Make) -> None:
    """They travel in checkpoints."""
    part = make()
    part.prepare()
    for i in range(min(3, part.size or 3)):
        prompt = part.prompt(i)
        again = Prompt.from_json(json.loads(json.dumps(prompt.to_json())))
        expect(again.to_json() == prompt.to_json(), f"prompt {i} is {prompt}, and after JSON {again}")


@contract_check("policy", "it builds the same policy every time, of the size it says")
def builds(make: Make) -> None:
    """In training mode, with finite weights."""
    one, other = make().build(), make().build()
    expect(isinstance(one, Policy), f"build() must return a Policy, got {type(one).__name__}")
    expect(one.training, "the policy must be in training mode")
    size, said = sum({id(p): p.numel() for p in one.parameters()}.values()), make().parameters()
    expect(size == said, f"parameters() says {said:,}, and the policy has {size:,}")
    for (name, mine), theirs in zip(one.named_parameters(), other.parameters(), strict=True):
        expect(mine.isfinite(), f"{name} is not finite")
        expect(torch.equal(mine, theirs), f"two builds differ in {name}")
