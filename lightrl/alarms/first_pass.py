"""Engine and trainer compute different log-probs from the same weights."""

from __future__ import annotations

from lightrl.alarms.alarm import Alarm
from lightrl.alarms.history import History


class FirstPass(Alarm):
    """Before the first step of a rollout some importance ratio is not 1: `ratio/first_pass_deviation`, of any one rollout, > limit."""

    name = "first_pass_ratio"
    why = (
        "Before the first step the policy that sampled is the policy that is trained, so every ratio must be 1; a deviation is also in "
        "every clip and gradient."
    )
    advice = (
        "If it grows with the rollouts, the engine does not get the new weights: check its `update_weights`. If it is there from the "
        "start, compare precisions and temperature, and set algorithm.old_logprobs to recompute."
    )

    def __init__(self, limit: float = 1e-3) -> None:
        """
        Args:
            limit: largest |ratio - 1| of a token that rounding explains.
        """
        self.limit = limit

    def seen(self, history: History) -> str | None:
        deviation = history.now("ratio/first_pass_deviation")
        if deviation is None or deviation <= self.limit:
            return None
        return f"on the first pass over the rollout some importance ratio deviated from 1 by {deviation:.3g} (limit {self.limit:g})."
