"""Checks of a method that gives each token of a micro-batch a number: masked positions, other rows and padding have no influence."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from torch import Tensor

from lightrl.parts.base import unpack
from lightrl.parts.step_part import StepPart
from lightrl.statistic import WithStatistics
from lightrl_workshop.checks.check import Make, contract_check, expect, expect_same, expect_shape, expect_statistics
from lightrl_workshop.checks.examples import Micro, micros, shuffled
from lightrl_workshop.checks.steps import micros_for

T = TypeVar("T")
Numbers = Tensor | WithStatistics
"""The result of such a method: numbers, perhaps with statistics about them."""


def per_token_checks(kind: str, ask: Callable[[T, Micro], Numbers], inputs: tuple[str, ...]) -> None:
    """Make these checks part of the contract of a kind.

    Args:
        kind: its title.
        ask: calls the method on a micro-batch; `[n, L]`.
        inputs: the fields of `Micro` that the method sees, for messages.
    """

    def value(part: T, micro: Micro) -> Tensor:
        found: Tensor
        found, statistics = unpack(ask(part, micro))
        expect_shape(found, list(micro.mask.shape), "its value", **shown_inputs(micro))
        expect_statistics(statistics, *micro.mask.shape, **shown_inputs(micro))
        return found

    def shown_inputs(micro: Micro) -> dict[str, Any]:
        return {name: getattr(micro, name) for name in (*inputs, "mask")}

    def examples(part: T) -> Iterable[Micro]:
        return micros_for(part) if isinstance(part, StepPart) else micros()

    @contract_check(kind, "it gives each token a finite number")
    def shapes(make: Make[T]) -> None:
        for micro in examples(make()):
            found = value(make(), micro)
            expect(found.is_floating_point(), f"its value is {found.dtype}")
            expect(found[micro.mask].isfinite(), "its value must be finite where there is a loss", found=found, **shown_inputs(micro))

    @contract_check(kind, "masked positions have no influence")
    def masked(make: Make[T]) -> None:
        for micro in examples(make()):
            one, other = value(make(), micro), value(make(), micro.poisoned())
            expect_same(one[micro.mask], other[micro.mask], "NaN at masked positions leaks out", **shown_inputs(micro))

    @contract_check(kind, "rows have no influence on each other")
    def rows(make: Make[T]) -> None:
        for micro in examples(make()):
            whole = value(make(), micro)
            for chosen in (shuffled(len(micro)), *([i] for i in range(len(micro)))):
                own, where = value(make(), micro.select(chosen)), micro.mask[chosen]
                what = f"rows {chosen} by themselves get other values"
                expect_same(whole[chosen][where], own[where], what, **shown_inputs(micro))

    @contract_check(kind, "padding changes nothing")
    def padding(make: Make[T]) -> None:
        for micro in examples(make()):
            one, wide = value(make(), micro), value(make(), micro.padded(3))[:, : micro.mask.shape[1]]
            expect_same(one[micro.mask], wide[micro.mask], "three padded positions change the values", **shown_inputs(micro))
