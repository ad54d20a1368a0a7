"""The contract of every reward."""

from __future__ import annotations

import math
from typing import Any

import torch

from lightrl.parts.reward import RowReward
from lightrl.rewards.calls import RESERVED, named_arguments
from lightrl.rewards.reward_set import RewardSet
from lightrl.testing.contracts.check import BrokenContract, Make, contract_check, expect, expect_same
from lightrl.testing.contracts.rows import experiences, shuffled
from lightrl.types import Rollout, ScoredRollout

KIND = "reward"


def score(make: Make, rows: Rollout) -> ScoredRollout | None:
    """The scored rollout; None if the reward wants columns that the examples do not have."""
    part = make()
    if wants_columns(part):
        return None
    part.weight = 1.0
    if part.runs == "process":
        # another promise looks at the workers; here the numbers matter
        part.runs = "inline"
    rewards = RewardSet({"it": part})
    try:
        return rewards.score(rows)
    finally:
        rewards.close()


def wants_columns(part: Any) -> bool:
    """It needs more of the data set than the examples have."""
    wanted = (named_arguments(part) or {}) if isinstance(part, RowReward) else {}
    return any(required and name not in RESERVED for name, required in wanted.items())


@contract_check(KIND, "it has a finite weight")
def weight(make: Make) -> None:
    """The factor in the sum of rewards."""
    part = make()
    expect(math.isfinite(part.weight), f"weight must be a finite number, got {part.weight!r}")


@contract_check(KIND, "a score is about its own row")
def rows_apart(make: Make) -> None:
    """Rows in another order, one by one, and none at all, are scored the same."""
    for rows in experiences():
        whole = score(make, rows)
        if whole is None:
            return
        for chosen in (shuffled(len(rows)), *([i] for i in range(len(rows))), []):
            own = score(make, rows.select(chosen))
            assert own is not None
            expected = whole.reward_parts["it"][chosen] if len(chosen) else torch.zeros(0, *own.reward_parts["it"].shape[1:])
            what = f"rows {chosen} by themselves score something else"
            found = own.reward_parts["it"]
            expect_same(expected.nan_to_num(-99.0), found.nan_to_num(-99.0), what, completions=[rows.completions[i] for i in chosen])


@contract_check(KIND, "a worker process can load it, and scores the same there")
def in_a_worker(make: Make) -> None:
    """Of rewards that run in worker processes."""
    part, rows = make(), next(experiences())
    if part.runs != "process" or wants_columns(part):
        return
    here = score(make, rows)
    assert here is not None
    rewards = RewardSet({"it": part})
    try:
        there = rewards.score(rows)
    except RuntimeError as error:
        raise BrokenContract(str(error)) from error
    finally:
        rewards.close()
    expected, found = here.reward_parts["it"].nan_to_num(-99.0), there.reward_parts["it"].nan_to_num(-99.0)
    expect_same(expected, found, "a worker process scores something else", completions=rows.completions)
