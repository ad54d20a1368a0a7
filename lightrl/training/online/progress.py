"""Tokens and seconds spent since the beginning of a run, before a resume included: other x-axes for every curve."""

from __future__ import annotations

from lightrl.training.statistics import StatisticsLedger


class Progress:
    """Sums over all rollouts."""

    def __init__(self) -> None:
        self.tokens = self.seconds = 0.0

    def report(self, ledger: StatisticsLedger, tokens: float, seconds: float, steps: int) -> None:
        """Add a rollout and report the sums.

        Args:
            ledger: receives them.
            tokens: of the rollout, over all ranks.
            seconds: that the rollout and its steps took.
            steps: optimizer steps since the beginning.
        """
        self.tokens += tokens
        self.seconds += seconds
        for name, value in {**self.state_dict(), "optimizer_steps": float(steps)}.items():
            ledger.add(f"progress/{name}", value, reduce="max")

    def state_dict(self) -> dict[str, float]:
        """Both sums."""
        return {"tokens": self.tokens, "seconds": self.seconds}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Take back what `state_dict` gave."""
        self.tokens, self.seconds = state["tokens"], state["seconds"]
