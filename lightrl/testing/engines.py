"""Engines with prepared answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lightrl.parts.engine import RolloutEngine, Sampling
from lightrl.types import Prompt, Rollout


class ReplayEngine(RolloutEngine):
    """Gives the same prepared rollout at every call, whatever the prompts, for tests of the steps after generation."""

    exact_logprobs = True

    def __init__(self, rollout: Rollout) -> None:
        """
        Args:
            rollout: returned by every call, with its own prompts.
        """
        self.rollout = rollout
        self.sampling = Sampling(max_new_tokens=16)

    def sync(self, policy: Any, version: int) -> None:
        """Nothing: the answers are prepared."""

    def generate(self, prompts: Sequence[Prompt], n: int, sampling: Sampling | None = None) -> Rollout:
        """A copy of the prepared rollout."""
        return self.rollout.select(range(len(self.rollout)))
