"""The policy writes the turns of others."""

from __future__ import annotations

from lightrl.alarms.alarm import WINDOW, Alarm
from lightrl.alarms.history import History


class OpenedTurns(Alarm):
    """The policy opens turns of another author: `episodes/opened_turns`, mean over the last 5 rollouts, > limit."""

    name = "opened_turns"
    why = "A policy that writes the replies of its environment itself is rewarded for a conversation that never took place."
    advice = (
        "Look at `completions`. Add the opening of the other author's turn to model.engine.stop, see that the policy's chat template ends "
        "its turns with a token that ends a completion, or lower the score of such turns by a reward."
    )

    def __init__(self, limit: float = 0.05) -> None:
        """
        Args:
            limit: share of turns, in [0, 1].
        """
        self.limit = limit

    def seen(self, history: History) -> str | None:
        share = history.mean("episodes/opened_turns", WINDOW)
        if share is None or share <= self.limit:
            return None
        return f"{share:.0%} of the policy's turns in the last {WINDOW} rollouts opened a turn of somebody else (limit {self.limit:.0%})."
