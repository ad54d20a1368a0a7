"""The policy repeats itself without having become better."""

from __future__ import annotations

from lightrl.alarms.alarm import WINDOW, Alarm
from lightrl.alarms.history import BEGINNING, History


class EntropyCollapse(Alarm):
    """The entropy has fallen to a small share of its first values, and the reward has not risen.

    Mean over the last 5 rollouts against the mean over the first 5, of `entropy` where it is logged, else of `entropy_estimate`. A
    policy that has become good may be certain, so there is no alarm if the reward has risen by its standard deviation within groups
    at the start.
    """

    name = "entropy_collapse"
    why = "A policy whose completions no longer vary finds no better ones, and groups with zero variance teach it nothing."
    advice = (
        "Lower the learning rate, raise the upper clip bound (DecoupledClip), add an EntropyBonus or a KL penalty, or check whether one "
        "phrase earns the reward."
    )

    def __init__(self, limit: float = 0.1) -> None:
        """
        Args:
            limit: share of the entropy at the start, in [0, 1].
        """
        self.limit = limit

    def seen(self, history: History) -> str | None:
        name = "entropy" if history.now("entropy") is not None else "entropy_estimate"
        before, now = history.mean_at_start(name), history.mean(name, WINDOW)
        if before is None or now is None or before <= 0 or now > self.limit * before:
            return None
        gain = (history.mean("reward", WINDOW) or 0.0) - (history.mean_at_start("reward") or 0.0)
        spread = history.mean_at_start("reward_std") or 0.0
        if gain >= spread > 0:
            return None
        return (
            f"`{name}` fell from {before:.3g} in the first {BEGINNING} rollouts to {now:.3g} nats per token (limit {self.limit:.0%} of it) "
            f"while the reward changed by {gain:+.3g} (its standard deviation within groups was {spread:.3g})."
        )
