"""One class for each check of the contract of modules, which breaks that check."""

from __future__ import annotations

from typing import Any

from broken_contracts.wrong import wrong

from lightrl import GroupRelative, PolicyOptimization, TinyPolicy, TransformersEngine

KIND = "module"
ENGINE = TransformersEngine(max_new_tokens=4)


def plain(self: Any) -> None:
    """Builds with arguments of its own."""
    PolicyOptimization.__init__(
        self,
        policy=TinyPolicy(hidden=8, layers=1, heads=2),
        algorithm=GroupRelative(),
        rewards={"small": "lightrl_workshop.toy.small_digits"},
    )


def sharing(self: Any) -> None:
    """Has the engine of all others."""
    plain(self)
    self.collector.engine = ENGINE


def undescribed(self: Any, low: float = 0.0) -> None:
    """Says nothing of its argument."""
    plain(self)


BROKEN = {
    "the class and each of its arguments is documented and typed": wrong(PolicyOptimization, __init__=undescribed),
    "an epoch of some prompts has steps, and one without an end has as many each time": wrong(
        PolicyOptimization, __init__=plain, steps_per_epoch=lambda self, prompts: 0
    ),
    "two instances share no part": wrong(PolicyOptimization, __init__=sharing),
}
