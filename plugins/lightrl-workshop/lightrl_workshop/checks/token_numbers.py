"""Checks of a method that gives each token a number, or several: of a micro-batch, and of a whole rollout."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from lightrl.parts.base import unpack
from lightrl.parts.step_part import StepPart
from lightrl.statistic import WithStatistics
from lightrl.types import TrainingBatch
from lightrl_workshop.checks.check import Make, contract_check, contract_check_on, expect, expect_same, expect_shape, expect_statistics
from lightrl_workshop.checks.examples import Micro, brief, micros, poisoned, shuffled
from lightrl_workshop.checks.steps import experiences_for, micros_for

Numbers = Tensor | WithStatistics
"""The result of such a method: numbers, perhaps with statistics about them."""


def per_token_checks(kind: str, ask: Callable[[Any, Micro], Numbers], inputs: tuple[str, ...]) -> None:
    """Make the checks of a method that sees a micro-batch, and gives `[n, L]`, part of the contract of a kind."""

    @contract_check_on(kind, "it gives each token a finite number", micros_of)
    def shapes(make: Make[Any], micro: Micro) -> None:
        shown = {name: getattr(micro, name) for name in (*inputs, "mask")}
        found, statistics = unpack(ask(make(), micro))
        expect_shape(found, list(micro.mask.shape), "its value", **shown)
        expect_statistics(statistics, *micro.mask.shape, **shown)
        expect(found.is_floating_point(), f"its value is {found.dtype}")
        expect(found[micro.mask].isfinite(), "its value must be finite where there is a loss", found=found, **shown)

    rows_apart_checks(kind, ask, inputs)


def rows_apart_checks(kind: str, ask: Callable[[Any, Micro], Numbers], inputs: tuple[str, ...]) -> None:
    """Make it part of the contract of a kind that masked positions, other rows and padding have no influence on `[n, L, ...]` numbers."""

    def expect_equal(make: Make[Any], micro: Micro, changed: Micro, rows: list[int], what: str) -> None:
        """The chosen rows of a micro-batch have the numbers that they have in a changed one."""
        where = micro.mask[rows]
        whole, own = unpack(ask(make(), micro))[0][rows][where], unpack(ask(make(), changed))[0][:, : where.shape[1]][where]
        expect_same(whole, own, what, **{name: getattr(micro, name) for name in (*inputs, "mask")})

    @contract_check_on(kind, "masked positions have no influence", micros_of)
    def masked(make: Make[Any], micro: Micro) -> None:
        expect_equal(make, micro, micro.poisoned(), list(range(len(micro))), "NaN at masked positions leaks out")

    @contract_check_on(kind, "rows have no influence on each other", micros_of)
    def rows_apart(make: Make[Any], micro: Micro) -> None:
        for rows in (shuffled(len(micro)), *([i] for i in range(len(micro)))):
            expect_equal(make, micro, micro.select(rows), rows, f"rows {rows} by themselves get other values")

    @contract_check_on(kind, "padding changes nothing", micros_of)
    def padding(make: Make[Any], micro: Micro) -> None:
        expect_equal(make, micro, micro.padded(3), list(range(len(micro))), "three padded positions change the values")


def row_constant_check(kind: str, ask: Callable[[Any, Micro], Numbers], what: str) -> None:
    """Make it part of the contract of a kind that `row_constant` is declared if and only if the tokens of a row share their number."""

    @contract_check(kind, f"row_constant is declared if and only if all tokens of a row have one {what}")
    def row_constant(make: Make[Any]) -> None:
        constant, declared = True, make().row_constant
        for micro in micros_of(make()):
            found, _ = unpack(ask(make(), micro))
            for i in range(len(micro)):
                values = found[i][micro.mask[i]]
                same = len(values) < 2 or bool((values - values[0]).abs().max() < 1e-6)
                expect(same or not declared, "row_constant is declared, but tokens of a row differ", found=values, **brief(micro))
                constant = constant and same
        expect(not constant or declared, f"all tokens of a row have one {what}, so declare row_constant = True")


def micros_of(part: object) -> Iterable[Micro]:
    """The examples of micro-batches, with what a part of optimizer steps reads."""
    return micros_for(part) if isinstance(part, StepPart) else micros()


def whole_batch_checks(kind: str, ask: Callable[[Any, TrainingBatch], Numbers], signed: bool = False, of: str = "") -> None:
    """Make the checks of a method that sees a rollout, and gives `[N, L]`, part of the contract of a kind; `of` begins each title."""

    def value(make: Make[Any], rows: TrainingBatch) -> Tensor:
        found, statistics = unpack(ask(make(), rows))
        expect_shape(found, list(rows.response_mask.shape), "its value", **brief(rows))
        expect_statistics(statistics, *rows.response_mask.shape, **brief(rows))
        return torch.where(rows.token_weight > 0, found, 0.0)

    @contract_check_on(kind, f"{of}every number is finite{'' if signed else ' and at least 0'}", experiences_for)
    def shapes(make: Make[Any], rows: TrainingBatch) -> None:
        found = value(make, rows)
        expect(found.isfinite(), "its numbers must be finite", found=found, **brief(rows))
        expect(found >= (-torch.inf if signed else 0.0), "weights must be at least 0", weights=found, **brief(rows))

    no_influence_checks(kind, value, of)

    @contract_check_on(kind, f"{of}another order of rows gives the same results in that order", experiences_for)
    def permutation(make: Make[Any], rows: TrainingBatch) -> None:
        order = shuffled(len(rows))
        found = value(make, rows.select(order))
        expect_same(value(make, rows)[order], found, f"rows in the order {order} get other numbers", **brief(rows))

    @contract_check_on(kind, f"{of}splitting a batch over ranks changes nothing", experiences_for)
    def ranks(make: Make[Any], rows: TrainingBatch) -> None:
        whole = value(make, rows)
        for group in torch.unique(rows.group):
            share = (rows.group == group).nonzero()[:, 0].tolist()
            found = value(make, rows.select(share))
            expect_same(whole[share], found, f"group {int(group)} by itself gets other numbers", **brief(rows))


def no_influence_checks(kind: str, value: Callable[[Make[Any], TrainingBatch], Tensor], of: str = "") -> None:
    """Make it part of the contract of a kind that masked positions, failed rows and padding have no influence on `[N, L, ...]` numbers."""

    @contract_check_on(kind, f"{of}masked positions and failed rows have no influence", experiences_for)
    def masked(make: Make[Any], rows: TrainingBatch) -> None:
        found = value(make, replace(poisoned(rows), token_weight=rows.token_weight))
        expect_same(value(make, rows), found, "NaN at masked positions or failed rows leaks out", **brief(rows))

    @contract_check_on(kind, f"{of}padding changes nothing", experiences_for)
    def padding(make: Make[Any], rows: TrainingBatch) -> None:
        found = value(make, rows.padded(rows.input_ids.shape[1] + 3))[:, : rows.input_ids.shape[1]]
        expect_same(value(make, rows), found, "three padded positions change its numbers", **brief(rows))
