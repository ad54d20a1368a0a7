"""All completions of a prompt have the same reward."""

from __future__ import annotations

from lightrl.alarms.alarm import WINDOW, Alarm
from lightrl.alarms.history import History


class ZeroVariance(Alarm):
    """Nearly every group has zero variance.

    Of all groups that were drawn, dropped ones included, the share with equal rewards, mean over the last 5 rollouts, >= limit.
    """

    name = "zero_variance"
    why = "If all completions of a prompt have the same reward, group-relative advantages are 0 and there is nothing to learn from."
    advice = (
        "If `reward` is high, the prompts are solved: take harder ones. If it is low, take easier ones, more supervised fine-tuning or "
        "larger groups. If it never changes, look at `completions` and run `lightrl reward test`: the reward may not tell completions "
        "apart."
    )

    def __init__(self, limit: float = 0.95) -> None:
        """
        Args:
            limit: share of groups, in [0, 1].
        """
        self.limit = limit

    def seen(self, history: History) -> str | None:
        share = history.mean("frac_reward_zero_std", WINDOW)
        drawn = history.mean("sampling/prompts", WINDOW)
        if drawn:
            lost = [history.mean(f"sampling/{what}_zero_variance", WINDOW) or 0.0 for what in ("dropped", "down_weighted")]
            share = max(share or 0.0, sum(lost) / drawn)
        if share is None or share < self.limit:
            return None
        return f"in {share:.0%} of the groups of the last {WINDOW} rollouts all rewards were equal (limit {self.limit:.0%})."
