"""The contract of every advantage."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from lightrl.algorithms.algorithm import Algorithm, GroupRelative
from lightrl.parts.advantage import Advantage, Advantages
from lightrl.ranks import Ranks
from lightrl.training.online.experience import with_advantages
from lightrl.types import TrainingBatch
from lightrl_workshop.checks.check import Make, contract_check, expect, expect_same, expect_shape, expect_statistics
from lightrl_workshop.checks.examples import alike, brief, experiences, poisoned, shuffled
from lightrl_workshop.checks.state import round_trip
from lightrl_workshop.ranks import on_ranks

KIND = "advantage"


@contract_check(KIND, "advantages have the shape of the tokens and are 0 where nothing was sampled or scored")
def shapes(make: Make[Advantage]) -> None:
    """`[N, L]`, finite, in the dtype of the rewards; returns as well, if and only if a critic is needed."""
    for rows in experiences(make()):
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


@contract_check(KIND, "masked positions and failed rows have no influence")
def masked(make: Make[Advantage]) -> None:
    """NaN there changes nothing."""
    for rows in experiences(make()):
        _expect_equal(make().compute(rows), make().compute(poisoned(rows)), "NaN at masked positions or failed rows leaks out", rows)


@contract_check(KIND, "failed rows leave the statistics")
def failed_rows_leave(make: Make[Advantage]) -> None:
    """Without them the others get the same."""
    for rows in experiences(make()):
        scored = rows.scorable.nonzero()[:, 0].tolist()
        found = _only(make().compute(rows), scored)
        _expect_equal(make().compute(rows.select(scored)), found, "a row that is not scorable changes what the others get", rows)


@contract_check(KIND, "rows that are all masked get 0")
def all_masked(make: Make[Advantage]) -> None:
    """No row scored at all, and no row at all."""
    for rows in experiences(make()):
        nobody = poisoned(replace(rows, scorable=torch.zeros_like(rows.scorable)))
        expect(make().compute(nobody).advantages == 0, "advantages must be 0 where no row is scorable", **brief(nobody))
        expect_shape(make().compute(rows.select([])).advantages, [0, rows.input_ids.shape[1]], "of no rows", **brief(rows))


@contract_check(KIND, "another order of rows gives the same results in that order, and group numbers are only names")
def permutation(make: Make[Advantage]) -> None:
    """Another order, other numbers for the same groups."""
    for rows in experiences(make()):
        order, whole = shuffled(len(rows)), make().compute(rows)
        _expect_equal(_only(whole, order), make().compute(rows.select(order)), f"rows in the order {order} get other values", rows)
        renamed = replace(rows, group=100 - rows.group)
        _expect_equal(whole, make().compute(renamed), "groups numbered otherwise get other values", renamed)


@contract_check(KIND, "padding changes nothing")
def padding(make: Make[Advantage]) -> None:
    """Three more positions on the right."""
    for rows in experiences(make()):
        length = rows.input_ids.shape[1]
        wide = make().compute(rows.padded(length + 3))
        _expect_equal(make().compute(rows), _cut(wide, length), "three padded positions change the values", rows)


@contract_check(KIND, "splitting a batch over ranks changes nothing")
def ranks(make: Make[Advantage]) -> None:
    """Each group on a rank of its own, they get what they get on one; sums over all rows go through `experience.ranks`."""
    for rows in experiences(make()):
        shares = [(rows.group == group).nonzero()[:, 0].tolist() for group in torch.unique(rows.group)]
        parts = [replace(rows.select(share), group=torch.zeros(len(share), dtype=torch.long)) for share in shares]
        whole = make().compute(rows).advantages

        def compute(rank: int, ranks: Ranks, parts: list[TrainingBatch] = parts) -> Tensor:
            return with_advantages(parts[rank], _with(make()), ranks, rank)[0].advantages

        for rank, (share, own) in enumerate(zip(shares, on_ranks(len(shares), compute), strict=True)):
            expect_same(whole[share], own, f"rank {rank} of {len(shares)} gets other values", **brief(rows))


@contract_check(KIND, "better rows never get less, and in some groups more")
def direction(make: Make[Advantage]) -> None:
    """Among equal completions of one prompt, in groups of 2, 4 and 8 with one or half of them right, unless none is compared or read."""
    if make().imitates or not make().needs_rewards:
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


@contract_check(KIND, "equal rewards give exactly 0 where the group is the baseline")
def equal_rewards(make: Make[Advantage]) -> None:
    """Float noise included; before any history."""
    part = make()
    if part.baseline != "group":
        return
    for reward in (0.0, 1.0, 0.1, 1e6 / 3):
        for rows in experiences(make()):
            level = replace(rows, token_rewards=torch.where(rows.step_ends, reward, 0.0), rewards=torch.full_like(rows.rewards, reward))
            found = make().compute(level).advantages
            expect(found == 0, f"every reward is {reward} and the advantages are not exactly 0", advantages=found, **brief(level))


@contract_check(KIND, "compute changes nothing before commit")
def repeatable(make: Make[Advantage]) -> None:
    """A second `compute` gives the same, and the experience is left as it was."""
    for rows in experiences(make()):
        part = make()
        before = {f.name: getattr(rows, f.name).clone() for f in fields(rows) if isinstance(getattr(rows, f.name), Tensor)}
        first = part.compute(rows)
        _expect_equal(first, part.compute(rows), "a second compute without commit gives something else", rows)
        for name, value in before.items():
            expect_same(value.nan_to_num(), getattr(rows, name).nan_to_num(), f"compute wrote into experience.{name}", 0, **brief(rows))


@contract_check(KIND, "its history survives a restart")
def history(make: Make[Advantage]) -> None:
    """After two rollouts, a new instance that took the state back computes the same."""
    part, again = make(), make()
    for rows in experiences(make()):
        part.compute(rows)
        part.commit()
    round_trip(part, again)
    for rows in experiences(make()):
        _expect_equal(part.compute(rows), again.compute(rows), "after a restart it computes something else", rows)


@contract_check(KIND, "it runs without the fields that it does not need")
def honest_needs(make: Make[Advantage]) -> None:
    """Reference log-probs and values are there only if asked for."""
    for rows in experiences(make()):
        part = make()
        given: dict[str, Any] = {name: getattr(rows, name) if name in part.needs else None for name in ("ref_logprobs", "values")}
        given["further_logprobs"] = {word: value for word, value in rows.further_logprobs.items() if word in part.needs}
        _expect_equal(make().compute(rows), part.compute(replace(rows, **given, returns=None)), "it uses what it does not need", rows)


def _with(part: Advantage) -> Algorithm:
    algorithm: Algorithm = GroupRelative()
    algorithm.advantage = part
    return algorithm


def _only(found: Advantages, rows: list[int]) -> Advantages:
    return replace(found, advantages=found.advantages[rows], returns=None if found.returns is None else found.returns[rows])


def _cut(found: Advantages, length: int) -> Advantages:
    return replace(found, advantages=found.advantages[:, :length], returns=None if found.returns is None else found.returns[:, :length])


def _expect_equal(one: Advantages, other: Advantages, what: str, rows: TrainingBatch) -> None:
    expect_same(one.advantages, other.advantages, what, **brief(rows))
    if one.returns is not None and other.returns is not None:
        expect_same(one.returns, other.returns, f"{what} (returns)", **brief(rows))
