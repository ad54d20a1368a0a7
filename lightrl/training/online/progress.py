"""Tokens and seconds spent on a rollout, and since the beginning of the run: other x-axes for every curve."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from lightrl.training.reports.statistics import StatisticsLedger


class Progress:
    """Sums over all rollouts, those before a resume included."""

    def __init__(self) -> None:
        self.tokens = self.seconds = 0.0

    def report(self, ledger: StatisticsLedger, tokens: float, seconds: float, steps: int, total: Callable[[Tensor], Tensor]) -> None:
        """Report the throughput of a rollout, add it to the sums, and report these.

        Args:
            ledger: receives the numbers.
            tokens: sampled on this rank.
            seconds: that the rollout and its steps took.
            steps: optimizer steps since the beginning.
            total: sums numbers over ranks.
        """
        ledger.add("perf/completion_tokens", tokens, reduce="sum")
        ledger.add("perf/tokens_per_second", tokens / seconds, reduce="sum")
        ledger.add("perf/seconds", seconds, reduce="max")
        self.tokens += float(total(torch.tensor([tokens], dtype=torch.float64))[0])
        self.seconds += seconds
        for name, value in {**self.state_dict(), "optimizer_steps": float(steps)}.items():
            ledger.add(f"progress/{name}", value, reduce="max")

    def state_dict(self) -> dict[str, float]:
        """Both sums."""
        return {"tokens": self.tokens, "seconds": self.seconds}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Take back what `state_dict` gave."""
        self.tokens, self.seconds = state["tokens"], state["seconds"]
