"""What a sampler works with during a run: prompts, completions, scores, and sums over ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import torch

from lightrl.parts.engine import RolloutEngine
from lightrl.rewards.scoring import RewardSet
from lightrl.strategies.adapter import StrategyAdapter
from lightrl.types import Prompt, Rollout, ScoredRollout


class RunCollection:
    """The `Collection` of one rollout: group numbers are unique within it, whatever the number of generate calls."""

    def __init__(
        self,
        prompts: int,
        draw: Callable[[int], list[Prompt]],
        engine: RolloutEngine,
        rewards: RewardSet,
        adapter: StrategyAdapter,
        phase: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        """
        Args:
            prompts: groups that this rank's batch should hold.
            draw: gives the next n prompts of this rank.
            engine: synchronised with the policy.
            rewards: score the completions.
            adapter: of the strategy, for sums over ranks.
            phase: times and shows a phase.
        """
        self.prompts, self.draw = prompts, draw
        self._engine, self._rewards, self._adapter, self._phase = engine, rewards, adapter, phase
        self._groups = 0

    def rollout(self, prompts: Sequence[Prompt], n: int) -> Rollout:
        """n completions for each prompt."""
        with self._phase("rollout"):
            rollout = self._engine.generate(prompts, n)
        rollout.group = rollout.group + self._groups
        self._groups += len(prompts)
        return rollout

    def score(self, rollout: Rollout) -> ScoredRollout:
        """The rollout with what each reward says of it."""
        with self._phase("reward"):
            return self._rewards.score(rollout)

    def total(self, value: float) -> float:
        """The sum of a number over ranks."""
        return float(self._adapter.total(torch.tensor([value], dtype=torch.float64))[0])
