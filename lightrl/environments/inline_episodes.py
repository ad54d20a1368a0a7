"""Episodes whose environment is called in the training process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from lightrl.environments.calls import Call, End
from lightrl.environments.episodes import Episodes
from lightrl.environments.pending import Done, log_failed_ends
from lightrl.environments.random_state import left_alone
from lightrl.parts.environment import Environment
from lightrl.workers.calls import Answer


class InlineEpisodes:
    """Makes calls one after another; an exception is caught, but nothing can stop a call that does not return."""

    def __init__(self, environment: Environment) -> None:
        """
        Args:
            environment: copied for every episode.
        """
        self._episodes = Episodes(environment)

    def start(self) -> None:
        """Nothing is needed."""

    def submit(self, calls: Sequence[Call]) -> Done:
        """Make the calls."""
        with left_alone():
            return Done([self._timed(call) for call in calls])

    def end(self, episodes: Sequence[int]) -> Done:
        """Drop episodes."""
        ends = self.submit([End(episode) for episode in episodes])
        log_failed_ends(ends.answers)
        return ends

    def close(self) -> None:
        """End all episodes."""
        self.end(self._episodes.open)

    def _timed(self, call: Call) -> Answer:
        started = time.perf_counter()
        answer = self._episodes.perform(call)
        return replace(answer, seconds=time.perf_counter() - started)
