"""The contract of every token weight."""

from __future__ import annotations

from dataclasses import replace

import torch

from lightrl.parts.token_weight import TokenWeight
from lightrl.types import Experience
from lightrl_workshop.checks.check import Make, contract_check_on, expect, expect_same, expect_shape
from lightrl_workshop.checks.examples import brief, shuffled
from lightrl_workshop.checks.steps import experiences_for
from lightrl_workshop.checks.token_numbers import whole_batch_checks

KIND = "token weight"


whole_batch_checks(KIND, lambda part, rows: part.weights(rows))


@contract_check_on(KIND, "which rows count is decided row by row", experiences_for)
def counts(make: Make[TokenWeight], rows: Experience) -> None:
    found, order = make().in_statistics(rows), shuffled(len(rows))
    expect_shape(found, [len(rows)], "in_statistics", **brief(rows))
    expect(found.dtype == torch.bool, f"in_statistics must be bool, got {found.dtype}")
    again = make().in_statistics(rows.select(order))
    expect(again == found[order], "in another order other rows count", in_statistics=found, **brief(rows))


@contract_check_on(KIND, "needs_rewards is declared if weights depend on rewards", experiences_for)
def declared(make: Make[TokenWeight], rows: Experience) -> None:
    if make().needs_rewards:
        return
    other = replace(rows, rewards=3 - rows.rewards, token_rewards=rows.token_rewards.flip(0))
    what = "with other rewards the weights are others, so declare needs_rewards = True"
    expect_same(make().weights(rows), make().weights(other), what, **brief(rows))
