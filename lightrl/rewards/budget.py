"""The number of failures that a run allows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from lightrl.parts.reward import Reward
from lightrl.prompt import JSON

NAMED = 3
"""Number of failed samples that the message names."""


class ErrorBudget:
    """The last `error_window` completions that a reward was asked about, and which of them failed."""

    def __init__(self, reward: Reward) -> None:
        """
        Args:
            reward: with its `max_error_rate` and `error_window`.
        """
        self._most = reward.max_error_rate * reward.error_window
        self._window: deque[str | None] = deque(maxlen=reward.error_window)

    def add(self, failures: Iterable[str | None]) -> None:
        """Count completions: for each its failure, which begins with the prompt's id, or None."""
        self._window.extend(failures)

    def spent(self) -> str | None:
        """A complaint, if more failed than `max_error_rate` x `error_window`; else None."""
        failed = [failure for failure in self._window if failure is not None]
        if len(failed) <= self._most:
            return None
        samples = "".join(f"\n  {failure}" for failure in list(dict.fromkeys(failed))[-NAMED:])
        return f"failed on {len(failed)} of the last {len(self._window)} completions (more than {self._most:g} are not allowed):{samples}"

    def state_dict(self) -> list[JSON]:
        """For each completion in the window, its failure or None."""
        return list(self._window)

    def load_state_dict(self, state: Iterable[str | None]) -> None:
        """Go on from what `state_dict` gave; of a longer window the last completions count."""
        self._window.clear()
        self._window.extend(state)
