"""The contract of every module."""

from __future__ import annotations

from lightrl.training.policy_module import PolicyModule
from lightrl_workshop.checks.check import Make, contract_check, expect

KIND = "module"


@contract_check(KIND, "an epoch of some prompts has steps, and one without an end has as many each time")
def epochs(make: Make[PolicyModule]) -> None:
    module = make()
    for prompts in (1, 7, 64, None):
        steps = module.steps_per_epoch(prompts)
        expect(isinstance(steps, int) and steps >= 1, f"steps_per_epoch({prompts}) is {steps!r}: expected 1 or more")
        expect(module.steps_per_epoch(prompts) == steps, f"steps_per_epoch({prompts}) is {steps} and then another number")


@contract_check(KIND, "two instances share no part")
def unshared(make: Make[PolicyModule]) -> None:
    """Nor does a default belong to the class."""
    one, other = make(), make()
    expect(one.collector.engine is not other.collector.engine, "two instances share their engine: make defaults in __init__")
