"""What parts promise that give each token of a micro-batch a number: masks, rows and padding do not matter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from lightrl.parts.base import unpack
from lightrl.testing.contracts.check import Make, contract_check, expect, expect_same, expect_shape, expect_statistics
from lightrl.testing.contracts.rows import Micro, micros, shuffled

Ask = Callable[[Any, Micro], Any]
"""Calls the part on a micro-batch; `[n, L]`, perhaps with statistics."""


def per_token_checks(kind: str, ask: Ask, inputs: tuple[str, ...]) -> None:
    """Register the promises of a kind whose method gives `[n, L]`.

    Args:
        kind: its title.
        ask: calls the method.
        inputs: fields of `Micro` that the method sees, for messages.
    """

    def value(part: Any, micro: Micro) -> Tensor:
        found, statistics = unpack(ask(part, micro))
        expect_shape(found, list(micro.mask.shape), "its value", **shown_inputs(micro))
        expect_statistics(statistics, *micro.mask.shape, **shown_inputs(micro))
        return found  # type: ignore[no-any-return]

    def shown_inputs(micro: Micro) -> dict[str, Any]:
        return {name: getattr(micro, name) for name in (*inputs, "mask")}

    @contract_check(kind, "it gives each token a finite number")
    def shapes(make: Make) -> None:
        for micro in micros():
            found = value(make(), micro)
            expect(found.is_floating_point(), f"its value is {found.dtype}")
            expect(found[micro.mask].isfinite(), "its value must be finite where there is a loss", found=found, **shown_inputs(micro))

    @contract_check(kind, "masked positions have no influence")
    def masked(make: Make) -> None:
        for micro in micros():
            one, other = value(make(), micro), value(make(), micro.poisoned())
            expect_same(one[micro.mask], other[micro.mask], "NaN at masked positions leaks out", **shown_inputs(micro))

    @contract_check(kind, "rows have no influence on each other")
    def rows(make: Make) -> None:
        for micro in micros():
            whole = value(make(), micro)
            for chosen in (shuffled(len(micro)), *([i] for i in range(len(micro)))):
                own, where = value(make(), micro.select(chosen)), micro.mask[chosen]
                what = f"rows {chosen} by themselves get other values"
                expect_same(whole[chosen][where], own[where], what, **shown_inputs(micro))

    @contract_check(kind, "padding changes nothing")
    def padding(make: Make) -> None:
        for micro in micros():
            one, wide = value(make(), micro), value(make(), micro.padded(3))[:, : micro.mask.shape[1]]
            expect_same(one[micro.mask], wide[micro.mask], "three padded positions change the values", **shown_inputs(micro))
