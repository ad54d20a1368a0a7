"""The contract of every advantage."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from lightrl.algorithms.algorithm import Algorithm, GroupRelative
from lightrl.ops.turns import turn_starts
from lightrl.parts.advantage import Advantage
from lightrl.parts.base import parts_within
from lightrl.ranks import Ranks
from lightrl.training.online.experience import with_advantages
from lightrl.types import TrainingBatch
from lightrl_workshop.checks.check import (
    Make,
    contract_check,
    contract_check_on,
    expect,
    expect_same,
    expect_shape,
    expect_statistics,
    round_trip,
)
from lightrl_workshop.checks.examples import alike, brief, experiences, poisoned, read_extras, shuffled
from lightrl_workshop.checks.token_numbers import no_influence_checks
from lightrl_workshop.experience import experience
from lightrl_workshop.ranks import on_ranks

KIND = "advantage"


@contract_check_on(KIND, "advantages have the shape of the tokens and are 0 where nothing was sampled or scored", experiences)
def shapes(make: Make[Advantage], rows: TrainingBatch) -> None:
    part, size = make(), list(rows.response_mask.shape)
    found = part.compute(rows)
    kept = rows.response_mask & rows.scorable[:, None]
    needs_returns = "values" in part.needs
    expect((found.returns is not None) == needs_returns, f"needs values: {needs_returns}; returns: {found.returns}", **brief(rows))
    for name in ("advantages", "returns") if needs_returns else ("advantages",):
        value = getattr(found, name)
        expect_shape(value, size, name, **brief(rows))
        expect(value.dtype == rows.token_rewards.dtype, f"{name} are {value.dtype}, the rewards {rows.token_rewards.dtype}")
        expect(value.isfinite(), f"{name} must be finite", found=value, **brief(rows))
        expect(value[~kept] == 0, f"{name} must be 0 outside the response and on rows not scorable", found=value, **brief(rows))
    expect_statistics(found.statistics, *size, **brief(rows))


def numbers(part: Advantage, rows: TrainingBatch) -> Tensor:
    """`[N, L, 1]` advantages, or `[N, L, 2]` with the returns of a critic."""
    found = part.compute(rows)
    return torch.stack([found.advantages] if found.returns is None else [found.advantages, found.returns], -1)


no_influence_checks(KIND, lambda make, rows: numbers(make(), rows))


@contract_check_on(KIND, "failed rows leave the statistics", experiences)
def failed_rows_leave(make: Make[Advantage], rows: TrainingBatch) -> None:
    scored = rows.scorable.nonzero()[:, 0].tolist()
    found = numbers(make(), rows)[scored]
    expect_same(numbers(make(), rows.select(scored)), found, "a row that is not scorable changes what the others get", **brief(rows))


@contract_check_on(KIND, "rows that are all masked get 0", experiences)
def all_masked(make: Make[Advantage], rows: TrainingBatch) -> None:
    nobody = poisoned(replace(rows, scorable=torch.zeros_like(rows.scorable)))
    expect(make().compute(nobody).advantages == 0, "advantages must be 0 where no row is scorable", **brief(nobody))
    expect_shape(make().compute(rows.select([])).advantages, [0, rows.input_ids.shape[1]], "of no rows", **brief(rows))


@contract_check_on(KIND, "another order of rows gives the same results in that order, and group numbers are only names", experiences)
def permutation(make: Make[Advantage], rows: TrainingBatch) -> None:
    order, whole = shuffled(len(rows)), numbers(make(), rows)
    expect_same(whole[order], numbers(make(), rows.select(order)), f"rows in the order {order} get other values", **brief(rows))
    renamed = replace(rows, group=100 - rows.group)
    expect_same(whole, numbers(make(), renamed), "groups numbered otherwise get other values", **brief(renamed))


@contract_check_on(KIND, "splitting a batch over ranks changes nothing", experiences)
def ranks(make: Make[Advantage], rows: TrainingBatch) -> None:
    """Each group on a rank of its own, they get what they get on one; sums over all rows go through `experience.ranks`."""
    expect_same_on_ranks(make, rows, 1, "{} gets other values")


@contract_check_on(KIND, "what it remembers is the same however prompts are spread over ranks", experiences)
def remembered(make: Make[Advantage], rows: TrainingBatch) -> None:
    """Of three rollouts, in each of which the groups are on other ranks."""
    expect_same_on_ranks(make, rows, 3, "after two rollouts {} gets other values: gather what is remembered, with `experience.ranks`")


def expect_same_on_ranks(make: Make[Advantage], rows: TrainingBatch, rollouts: int, what: str) -> None:
    """The last of some rollouts gives each group, on a rank of its own, what it gets on one rank."""
    shares = [(rows.group == group).nonzero()[:, 0].tolist() for group in torch.unique(rows.group)]

    def compute(shares: list[list[int]], rank: int, ranks: Ranks) -> tuple[list[int], Tensor]:
        algorithm: Algorithm = GroupRelative()
        algorithm.advantage = make()
        for rollout in range(rollouts):
            share = shares[(rank + rollout) % len(shares)]
            own = rows.select(share)
            group = torch.unique(own.group, return_inverse=True)[1]
            found = with_advantages(replace(own, group=group), algorithm, ranks, rank)[0].advantages
            algorithm.advantage.commit()
        return share, found

    ((_, whole),) = on_ranks(1, partial(compute, [list(range(len(rows)))]))
    for rank, (share, own) in enumerate(on_ranks(len(shares), partial(compute, shares))):
        expect_same(whole[share], own, what.format(f"rank {rank} of {len(shares)}"), **brief(rows))


@contract_check(KIND, "better rows never get less, and in some groups more")
def direction(make: Make[Advantage]) -> None:
    """Among equal completions of one prompt, in groups of 2, 4 and 8 with one or half of them right, unless none is compared or read."""
    if not make().needs_rewards:
        return
    strict = False
    for rewards in ([1.0, 0.0], [1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [1.0] + 7 * [0.0], 4 * [1.0] + 4 * [0.0]):
        rows = alike(rewards, make())
        found = make().compute(rows).advantages.sum(1)
        right, wrong = found[rows.rewards == 1], found[rows.rewards == 0]
        says = "a row with reward 1 must not get less than a row with reward 0"
        expect(bool(right.min() >= wrong.max()), says, advantages=found, **brief(rows))
        strict |= bool(right.min() > wrong.max())
    expect(strict, "a row with reward 1 must get more than a row with reward 0 in some group", advantages=found, **brief(rows))


@contract_check(KIND, "compares is declared where a completion that is alone in its group gets 0, whatever its reward")
def alone(make: Make[Advantage]) -> None:
    part = make()
    if part.compares or not part.needs_rewards:
        return
    rows = experience([1.0, 0.0, 3.0, -2.0], lengths=[1] * 4, group=[0, 1, 2, 3])
    rows = replace(rows, values=torch.zeros_like(rows.token_rewards), ref_logprobs=torch.zeros_like(rows.token_rewards))
    rows.extras = read_extras(part, rows, torch.full((4, 1), 0.25))
    what = "without other completions of its prompt each row gets 0, so declare compares = True"
    expect(bool(part.compute(rows).advantages.any()), what, **brief(rows))


@contract_check(KIND, "equal rewards give exactly 0 where completions of one prompt are compared")
def equal_rewards(make: Make[Advantage]) -> None:
    part = make()
    # one that holds others gives 0 only where each of them does
    if not all(inner.compares for inner in [part, *parts_within(part).values()]):
        return
    for reward in (0.0, 1.0, 0.1, 1e6 / 3):
        for rows in experiences(make()):
            # a discount makes as much of equal rewards only where rows have as many turns as the first of their group
            turns, first = turn_starts(rows.response_mask).sum(1).clamp(min=1), (rows.group[:, None] == rows.group).long().argmax(1)
            rows = rows.select((turns == turns[first]).nonzero()[:, 0].tolist())
            level = replace(rows, token_rewards=torch.where(rows.step_ends, reward, 0.0))
            level.rewards = torch.where(rows.step_ends.any(1), level.token_rewards.sum(1), reward)
            found = make().compute(level).advantages
            expect(found == 0, f"every reward is {reward} and the advantages are not exactly 0", advantages=found, **brief(level))


@contract_check_on(KIND, "compute changes nothing before commit", experiences)
def repeatable(make: Make[Advantage], rows: TrainingBatch) -> None:
    """A second `compute` gives the same, and the experience is left as it was."""
    part = make()
    before = {f.name: getattr(rows, f.name).clone() for f in fields(rows) if isinstance(getattr(rows, f.name), Tensor)}
    first = numbers(part, rows)
    expect_same(first, numbers(part, rows), "a second compute without commit gives something else", **brief(rows))
    for name, value in before.items():
        expect_same(value.nan_to_num(), getattr(rows, name).nan_to_num(), f"compute wrote into experience.{name}", 0, **brief(rows))


@contract_check(KIND, "its history survives a restart")
def history(make: Make[Advantage]) -> None:
    part, again = make(), make()
    for rows in experiences(make()):
        part.compute(rows)
        part.commit()
    round_trip(part, again)
    for rows in experiences(make()):
        expect_same(numbers(part, rows), numbers(again, rows), "after a restart it computes something else", **brief(rows))
        # what it remembers may show only once it has learnt more
        part.commit()
        again.commit()


@contract_check_on(KIND, "it runs without the fields that it does not need", experiences)
def honest_needs(make: Make[Advantage], rows: TrainingBatch) -> None:
    """Reference log-probs and values are there only if asked for."""
    part = make()
    given: dict[str, Any] = {name: getattr(rows, name) if name in part.needs else None for name in ("ref_logprobs", "values")}
    given["further_logprobs"] = {word: value for word, value in rows.further_logprobs.items() if word in part.needs}
    found = numbers(part, replace(rows, **given, returns=None))
    expect_same(numbers(make(), rows), found, "it uses what it does not need", **brief(rows))
