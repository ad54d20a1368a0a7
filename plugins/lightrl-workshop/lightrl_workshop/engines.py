"""Prepared rollouts in place of an engine's."""

from __future__ import annotations

from collections.abc import Sequence

from lightrl.parts.engine import Sampling
from lightrl.parts.environment import SingleTurn
from lightrl.rollout.decode.transformers_engine import TransformersEngine
from lightrl.rollout.loop import RolloutLoop
from lightrl.types import Prompt, Rollout


class ReplayedRollouts(RolloutLoop):
    """Gives the same prepared rollout at every call, whatever the prompts, for tests of the steps after generation.

    Example: `module.collector.rollouts = ReplayedRollouts(rollout)`.
    """

    def __init__(self, rollout: Rollout) -> None:
        """
        Args:
            rollout: returned by every call, with its own prompts.
        """
        super().__init__(TransformersEngine(), SingleTurn())
        self._rollout = rollout

    def rollout(self, prompts: Sequence[Prompt], n: int, sampling: Sampling | None = None) -> Rollout:
        """A copy of the prepared rollout."""
        return self._rollout.select(range(len(self._rollout)))
