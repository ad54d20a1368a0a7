"""The contract of every reward."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lightrl.parts.reward import Reward, RowReward
from lightrl.rewards.reward_set import RewardSet
from lightrl.rewards.row_call import RESERVED, named_arguments
from lightrl.types import Outcome, Rollout
from lightrl_workshop.checks.check import BrokenContract, Make, contract_check, expect, expect_same
from lightrl_workshop.checks.examples import experiences, shuffled

KIND = "reward"


def scores(part: Reward, rows: Rollout) -> Tensor:
    """`[N]` or `[N, L]`: the scores of the rows, -99 where there is none."""
    part.weight = 1.0
    rewards = RewardSet({"it": part})
    try:
        return rewards.score(rows).reward_parts["it"].nan_to_num(-99.0)
    except RuntimeError as error:
        raise BrokenContract(str(error)) from error
    finally:
        rewards.close()


def inline(part: Reward) -> Reward:
    """The part without worker processes, which have a check of their own."""
    if part.runs == "process":
        part.runs = "inline"
    return part


def wants_columns(part: Reward) -> bool:
    """It needs more of the data set than the examples have."""
    wanted = (named_arguments(part) or {}) if isinstance(part, RowReward) else {}
    return any(required and name not in RESERVED for name, required in wanted.items())


@contract_check(KIND, "it has a finite weight")
def weight(make: Make[Reward]) -> None:
    part = make()
    expect(math.isfinite(part.weight), f"weight must be a finite number, got {part.weight!r}")


@contract_check(KIND, "an empty completion does not fail where the others get a score")
def nothing_fails(make: Make[Reward]) -> None:
    """A row whose reward fails is not learnt from. Where others fail too, the prompts of the examples may lack what it wants."""
    if wants_columns(make()):
        return
    for rows in experiences():
        rewards = RewardSet({"it": inline(make())})
        try:
            scoring = rewards.submit(rows)
            outcomes = scoring.result().outcomes["it"].tolist()
        except RuntimeError as error:
            raise BrokenContract(str(error)) from error
        finally:
            rewards.close()
        failed = [row for row, outcome in enumerate(outcomes) if outcome in (Outcome.ERROR, Outcome.TIMEOUT)]
        expect(not failed or any(rows.completions[row] for row in failed), f"it fails: {[scoring.failures['it'][row] for row in failed]}")


@contract_check(KIND, "a score depends on its own row alone")
def rows_apart(make: Make[Reward]) -> None:
    """Rows in another order, one by one, and none at all, are scored the same."""
    if wants_columns(make()):
        return
    for rows in experiences():
        whole = scores(inline(make()), rows)
        for chosen in (shuffled(len(rows)), *([i] for i in range(len(rows))), []):
            own = scores(inline(make()), rows.select(chosen))
            expected = whole[chosen] if len(chosen) else torch.zeros(0, *own.shape[1:])
            what = f"rows {chosen} by themselves score something else"
            expect_same(expected, own, what, completions=[rows.completions[i] for i in chosen])


@contract_check(KIND, "a worker process can load it, and scores the same there")
def in_a_worker(make: Make[Reward]) -> None:
    part, rows = make(), next(experiences())
    if part.runs != "process" or wants_columns(part):
        return
    here, there = scores(inline(make()), rows), scores(part, rows)
    expect_same(here, there, "a worker process scores something else", completions=rows.completions)
