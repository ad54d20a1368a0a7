"""The number of failures that a run allows."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable

from lightrl.prompt import JSON

NAMED = 3
"""Number of failed samples that the message names."""
_PROMPT = re.compile(r"prompt (['\"]).*?\1: ")
"""How a failure begins."""


class ErrorBudget:
    """The last `error_window` samples that a reward or an environment was asked about, and which of them failed."""

    def __init__(self, max_error_rate: float, error_window: int, samples: str) -> None:
        """`samples`: their name in messages, such as `completions`."""
        self._samples = samples
        self._most = max_error_rate * error_window
        self._window: deque[str | None] = deque(maxlen=error_window)

    def add(self, failures: Iterable[str | None]) -> None:
        """Count samples: for each its failure, which begins with the prompt's id, or None."""
        self._window.extend(failures)

    def spent(self) -> str | None:
        """A complaint, if more failed than `max_error_rate` x `error_window`; else None."""
        failed = [failure for failure in self._window if failure is not None]
        if len(failed) <= self._most:
            return None
        named = "".join(f"\n  {failure}" for failure in list(dict.fromkeys(failed))[-NAMED:])
        seen = f"{len(self._window)} {self._samples}"
        return f"failed on {len(failed)} of the last {seen} (more than {self._most:g} are not allowed):{named}"

    def only_failure(self) -> str | None:
        """The failure of every sample so far, if all of them failed, and in the same way; None else, and where any number may fail."""
        reasons = {None if failure is None else _PROMPT.sub("", failure, count=1) for failure in self._window}
        known = len(reasons) == 1 and self._most < (self._window.maxlen or 0)
        return reasons.pop() if known else None

    def state_dict(self) -> list[JSON]:
        """For each sample in the window, its failure or None."""
        return list(self._window)

    def load_state_dict(self, state: Iterable[str | None]) -> None:
        """Go on from what `state_dict` gave; of a longer window the last samples count."""
        self._window.clear()
        self._window.extend(state)
