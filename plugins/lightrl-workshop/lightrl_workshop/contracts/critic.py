"""The contract of every critic."""

from __future__ import annotations

import torch
from torch import nn

from lightrl.parts.aggregation import Aggregation
from lightrl.parts.base import unpack
from lightrl.parts.critic import Critic
from lightrl.policy.tiny import TinyPolicy
from lightrl_workshop.checks.check import Make, contract_check, contract_check_on, expect, expect_shape
from lightrl_workshop.checks.examples import Micro, micros
from lightrl_workshop.checks.token_numbers import per_token_checks, whole_batch_checks

KIND = "critic"


per_token_checks(KIND, lambda part, micro: part.loss(micro.values, micro.old_values, micro.returns), ("values", "old_values", "returns"))
whole_batch_checks(KIND, lambda part, rows: part.weights(rows), of="its weights: ")


@contract_check(KIND, "its coefficient, learning rate and aggregation are valid")
def settings(make: Make[Critic]) -> None:
    part = make()
    expect(part.coefficient >= 0, f"coefficient must be at least 0, got {part.coefficient}")
    expect(part.learning_rate is None or part.learning_rate > 0, f"learning_rate must be above 0 or null, got {part.learning_rate}")
    expect(isinstance(part.aggregation, Aggregation), f"aggregation must be an Aggregation, got {part.aggregation!r}")


@contract_check(KIND, "it predicts a number per token")
def predicts(make: Make[Critic]) -> None:
    policy = TinyPolicy(hidden=8, layers=1, heads=2).build()
    module = make().build(policy)
    expect(isinstance(module, nn.Module), f"build() must return a module, got {type(module).__name__}")
    expect(any(p.requires_grad for p in module.parameters()), "the critic has no trainable parameter")
    ids = torch.full((2, 5), 3)
    found = policy(ids, torch.arange(5).expand(2, 5) > 0, critic=module).values
    expect_shape(found, [2, 5], "the values", input_ids=ids)
    expect(found.isfinite(), "values must be finite", values=found)


@contract_check_on(KIND, "its loss is least at the returns and pulls towards them", lambda part: micros())
def pulls(make: Make[Critic], micro: Micro) -> None:
    values = micro.values.clone().requires_grad_()
    found, _ = unpack(make().loss(values, micro.old_values, micro.returns))
    (slope,) = torch.autograd.grad(found.sum(), values)
    wrong = (slope * (micro.returns - micro.values) > 0) & micro.mask
    expect(~wrong, "the gradient pulls away from the returns", gradient=slope, values=micro.values, returns=micro.returns)
