"""Checks of a method that gives each token of a whole rollout a number: failed rows, order, ranks and padding have no influence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor

from lightrl.parts.base import unpack
from lightrl.types import TrainingBatch
from lightrl_workshop.checks.check import Make, contract_check, expect, expect_same, expect_shape, expect_statistics
from lightrl_workshop.checks.examples import brief, poisoned, shuffled
from lightrl_workshop.checks.per_token import Numbers
from lightrl_workshop.checks.steps import experiences_for

T = TypeVar("T")


def whole_batch_checks(kind: str, ask: Callable[[T, TrainingBatch], Numbers], signed: bool = False, of: str = "") -> None:
    """Make these checks part of the contract of a kind.

    Args:
        kind: its title.
        ask: calls the method on an experience; `[N, L]`.
        signed: the numbers may be below 0.
        of: begins each title, where a kind has another method with such checks.
    """

    def value(make: Make[T], rows: TrainingBatch) -> Tensor:
        found, statistics = unpack(ask(make(), rows))
        expect_shape(found, list(rows.response_mask.shape), "its value", **brief(rows))
        expect_statistics(statistics, *rows.response_mask.shape, **brief(rows))
        return torch.where(rows.token_weight > 0, found, 0.0)

    @contract_check(kind, f"{of}every number is finite{'' if signed else ' and at least 0'}")
    def shapes(make: Make[T]) -> None:
        for rows in experiences_for(make()):
            found = value(make, rows)
            expect(found.isfinite(), "its numbers must be finite", found=found, **brief(rows))
            expect(found >= (-torch.inf if signed else 0.0), "weights must be at least 0", weights=found, **brief(rows))

    @contract_check(kind, f"{of}masked positions and failed rows have no influence")
    def masked(make: Make[T]) -> None:
        for rows in experiences_for(make()):
            found = value(make, replace(poisoned(rows), token_weight=rows.token_weight))
            expect_same(value(make, rows), found, "NaN at masked positions or failed rows leaks out", **brief(rows))

    @contract_check(kind, f"{of}another order of rows gives the same results in that order")
    def permutation(make: Make[T]) -> None:
        for rows in experiences_for(make()):
            order = shuffled(len(rows))
            found = value(make, rows.select(order))
            expect_same(value(make, rows)[order], found, f"rows in the order {order} get other numbers", **brief(rows))

    @contract_check(kind, f"{of}splitting a batch over ranks changes nothing")
    def ranks(make: Make[T]) -> None:
        for rows in experiences_for(make()):
            whole = value(make, rows)
            for group in torch.unique(rows.group):
                share = (rows.group == group).nonzero()[:, 0].tolist()
                found = value(make, rows.select(share))
                expect_same(whole[share], found, f"group {int(group)} by itself gets other numbers", **brief(rows))

    @contract_check(kind, f"{of}padding changes nothing")
    def padding(make: Make[T]) -> None:
        for rows in experiences_for(make()):
            found = value(make, rows.padded(rows.input_ids.shape[1] + 3))[:, : rows.input_ids.shape[1]]
            expect_same(value(make, rows), found, "three padded positions change its numbers", **brief(rows))
