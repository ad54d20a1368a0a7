"""The reward follows the length of completions."""

from __future__ import annotations

from lightrl.alarms.alarm import Alarm
from lightrl.alarms.history import History

WINDOW = 10
"""Rollouts: a correlation of one rollout is noisy."""


class LengthReward(Alarm):
    """Reward and length correlate within groups: |`completions/length_reward_correlation`|, mean over the last 10 rollouts, > limit."""

    name = "length_reward"
    why = "The policy then learns first how long to be: its completions grow or shrink, whatever they say."
    advice = (
        "Look at `completions`, and at `completions/mean_length_right` beside `_wrong`. If you do not mean to reward length, change the "
        "reward, or use an aggregation that is neutral to length (ConstantLength)."
    )

    def __init__(self, limit: float = 0.8) -> None:
        """
        Args:
            limit: of the absolute correlation, in [0, 1].
        """
        self.limit = limit

    def seen(self, history: History) -> str | None:
        correlation = history.mean("completions/length_reward_correlation", WINDOW)
        if correlation is None or abs(correlation) <= self.limit:
            return None
        which = "longer" if correlation > 0 else "shorter"
        return (
            f"the {which} completions of a group had the higher reward: correlation {correlation:+.2f} over the last {WINDOW} rollouts "
            f"(limit {self.limit:g})."
        )
