"""One reward decides almost everything, so that another has no influence."""

from __future__ import annotations

from lightrl.alarms.alarm import WINDOW, Alarm
from lightrl.alarms.history import History


class Dominance(Alarm):
    """One reward decides almost alone which completions are better, while another one still varies.

    `rewards/{name}/share`, mean over the last 5 rollouts, > limit; another reward with a weight whose raw scores have a standard
    deviation of a quarter of their mean or more could have had an influence. A reward that every completion earns could not.
    """

    name = "reward_dominance"
    why = "The advantage depends on one reward alone, so the policy may get worse at the other one without noticing."
    advice = "Bring the rewards to one scale: change `weight`, or set `normalize: group` on both; `lightrl reward test` shows their spread."
    VARIES = 0.25

    def __init__(self, limit: float = 0.95) -> None:
        """
        Args:
            limit: share of the variance of the reward within groups, in [0, 1].
        """
        self.limit = limit

    def seen(self, history: History) -> str | None:
        latest = history.latest[-1] if history.latest else {}
        weighted = [
            key.split("/")[1] for key, weight in latest.items() if key.startswith("rewards/") and key.endswith("/weight") and weight
        ]
        shares = {name: history.mean(f"rewards/{name}/share", WINDOW) for name in weighted}
        for name, share in shares.items():
            drowned = [other for other in weighted if other != name and self._varies(history, other)]
            if share is not None and share > self.limit and drowned:
                return (
                    f"{share:.0%} of the variance of the reward within groups came from `{name}` in the last {WINDOW} rollouts (limit "
                    f"{self.limit:.0%}), though {' and '.join(f'`{other}`' for other in drowned)} varied too."
                )
        return None

    def _varies(self, history: History, name: str) -> bool:
        mean, std = history.mean(f"rewards/{name}/mean", WINDOW), history.mean(f"rewards/{name}/std", WINDOW)
        return mean is not None and std is not None and std > 0 and std >= self.VARIES * abs(mean)
