"""The contract of every policy source."""

from __future__ import annotations

import torch

from lightrl.policy.policy import Policy
from lightrl.policy.source import PolicySource
from lightrl_workshop.checks.check import Make, contract_check, expect

KIND = "policy"


@contract_check(KIND, "it builds the same policy every time, with as many parameters as parameters() says")
def builds(make: Make[PolicySource]) -> None:
    one, other = make().build(), make().build()
    expect(isinstance(one, Policy), f"build() must return a Policy, got {type(one).__name__}")
    expect(one.training, "the policy must be in training mode")
    size, said = sum({id(p): p.numel() for p in one.parameters()}.values()), make().parameters()
    expect(size == said, f"parameters() says {said:,}, and the policy has {size:,}")
    for (name, mine), theirs in zip(one.named_parameters(), other.parameters(), strict=True):
        expect(mine.isfinite(), f"{name} is not finite")
        expect(torch.equal(mine, theirs), f"two builds differ in {name}")
