"""The training reward rises while the validation scores fall."""

from __future__ import annotations

from itertools import pairwise

from lightrl.alarms.alarm import Alarm
from lightrl.alarms.history import TRAINING, History

FALLS = 2
"""Validations in a row that must be worse than the one before: a single bad one is noise."""


class ValidationFalls(Alarm):
    """The training reward has risen since the best validation, and the validations have become worse.

    A score is the share of right completions (`val/avg@n`) or the reward (`val/reward`); each is tested alone. Since its best
    value among the last ten validations it has fallen by more than the limit, relative to that value and twice in a row, and
    the mean training reward of the five rollouts before each validation has risen by more than the same limit.
    """

    name = "validation_falls"
    why = (
        "The policy gets better at the training reward and worse on held-out prompts: it exploits a mistake in the reward, or learns the "
        "prompts by heart."
    )
    advice = "Read `completions` to see what earns the reward now, correct the reward, add a KL penalty, or stop at the best validation."

    def __init__(self, limit: float = 0.1) -> None:
        """
        Args:
            limit: relative change since the best validation, in [0, 1].
        """
        self.limit = limit

    def seen(self, history: History) -> str | None:
        names = history.validations[-1].keys() - {TRAINING} if history.validations else set()
        for name in sorted(names):
            points = [(v[name], v[TRAINING]) for v in history.validations if name in v and TRAINING in v]
            (best, before), (now, reward) = max(points, default=(0.0, 0.0)), points[-1] if points else (0.0, 0.0)
            falls = [b < a for (a, _), (b, _) in pairwise(points[-FALLS - 1 :])]
            fell = len(falls) == FALLS and all(falls) and best - now > self.limit * abs(best)
            if fell and reward - before > self.limit * abs(before):
                return (
                    f"`{name}` fell from its best, {best:.3g}, to {now:.3g}, while the training reward rose from {before:.3g} to "
                    f"{reward:.3g} (limit {self.limit:.0%} each)."
                )
        return None
