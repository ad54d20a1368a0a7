"""Reward for length."""

from __future__ import annotations

from lightrl.alarms.alarm import Alarm
from lightrl.alarms.history import History

WINDOW = 10
"""Rollouts: a correlation of one rollout is noisy."""


class LengthReward(Alarm):
    """Within groups, reward goes with length: |`completions/length_reward_correlation`|, mean over the last 10 rollouts, > limit."""

    name = "length_reward"
    why = "What the policy learns first is then how long to be: it grows, or it shrinks, whatever it says."
    advice = (
        "Look at `completions`, and at `completions/mean_length_right` beside `_wrong`. If length is not what you reward, change the "
        "reward, or take an aggregation that is neutral to length (ConstantLength)."
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
