"""What is trained on rises while what is wanted falls."""

from __future__ import annotations

from itertools import pairwise

from lightrl.alarms.alarm import Alarm
from lightrl.alarms.history import TRAINING, History

FALLS = 2
"""Validations in a row that must be worse than the one before: a single bad one is noise."""


class ValidationFalls(Alarm):
    """The training reward has risen since the best validation, and the validations have become worse.

    The score is the share of right completions (`val/avg@n`) or the reward (`val/reward`), each of them by itself. Since its best
    value among the last ten validations it has fallen by more than the limit, relative to that value and twice in a row, and
    the mean training reward of the five rollouts before each validation has risen by more than the same limit.
    """

    name = "validation_falls"
    why = (
        "The policy gets better at its reward on the training prompts and worse at what was wanted: it has found a gap in the reward, or "
        "learns the prompts by heart."
    )
    advice = "Read `completions` for what earns the reward now, close the gap, add a KL penalty, or stop at the best validation."

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
