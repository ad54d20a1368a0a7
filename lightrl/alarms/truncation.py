"""Completions are cut off before they end."""

from __future__ import annotations

from lightrl.alarms.alarm import WINDOW, Alarm
from lightrl.alarms.history import History


class Truncation(Alarm):
    """Too many completions reach the limit on new tokens: `completions/clipped_ratio`, mean over the last 5 rollouts, > limit."""

    name = "truncation"
    why = "A completion that is cut off mostly counts as wrong, so the policy learns to be short and not to be right."
    advice = (
        "Raise model.engine.max_new_tokens (of episodes, also the token limits of model.environment), mask truncated rows (token_weight: "
        "MaskTruncated), or check in `completions` whether the policy repeats itself or has no end token in its template."
    )

    def __init__(self, limit: float = 0.25) -> None:
        """
        Args:
            limit: share of completions, in [0, 1].
        """
        self.limit = limit

    def seen(self, history: History) -> str | None:
        share = history.mean("completions/clipped_ratio", WINDOW)
        if share is None or share <= self.limit:
            return None
        return f"{share:.0%} of the completions of the last {WINDOW} rollouts were cut off (limit {self.limit:.0%})."
