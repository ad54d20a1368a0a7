"""References that take something over from the policy after a step."""

from __future__ import annotations

from collections.abc import Iterable

from lightrl.parts.reference import Reference
from lightrl.policy.policy import Policy
from lightrl.strategies.adapter import StrategyAdapter


def move(references: Iterable[Reference], policy: Policy, step: int, adapter: StrategyAdapter) -> None:
    """Let the references that move at this step see the policy's weights, gathered once; every rank calls it.

    Args:
        references: that have been built.
        policy: after the step.
        step: optimizer steps made so far.
        adapter: gathers weights that a strategy has cut.
    """
    moving = [reference for reference in references if reference.moves_at(step)]
    if not moving:
        return
    with adapter.gathered_weights():
        for reference in moving:
            reference.after_step(policy, step)
