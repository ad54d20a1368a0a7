"""Completions without a score."""

from __future__ import annotations

from lightrl.alarms.alarm import WINDOW, Alarm
from lightrl.alarms.history import History


class Unscored(Alarm):
    """Too many completions have no score.

    The largest of `unscorable_ratio` and each reward's `rewards/{name}/failed`, mean over the last 5 rollouts, > limit.
    """

    name = "unscored"
    why = (
        "Rows without a score are left out of the loss, so the policy learns from the others alone, and completions that make a reward "
        "fail have no disadvantage."
    )
    advice = (
        "Read the warnings of the reward on the terminal, run `lightrl reward test` on such completions, and raise timeout_s if the "
        "failures are time-outs (`rewards/{name}/timeout`)."
    )

    def __init__(self, limit: float = 0.1) -> None:
        """
        Args:
            limit: share of completions, in [0, 1].
        """
        self.limit = limit

    def seen(self, history: History) -> str | None:
        latest = history.latest[-1] if history.latest else {}
        watched = [key for key in latest if key == "unscorable_ratio" or (key.startswith("rewards/") and key.endswith("/failed"))]
        shares = {key: history.mean(key, WINDOW) or 0.0 for key in watched}
        worst = max(shares, key=lambda key: shares[key], default=None)
        if worst is None or shares[worst] <= self.limit:
            return None
        return f"`{worst}` was {shares[worst]:.0%} over the last {WINDOW} rollouts (limit {self.limit:.0%})."
