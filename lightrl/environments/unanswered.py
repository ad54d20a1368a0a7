"""Episodes of one turn that nobody answers: there is nothing to copy, to time or to guard."""

from __future__ import annotations

from collections.abc import Sequence

from lightrl.environments.calls import Begin, Call
from lightrl.environments.pending import Done
from lightrl.parts.environment import Reply, own_opening
from lightrl.workers.calls import Answer

OVER = Answer(Reply(done=True))


class Unanswered:
    """Opens an episode with its prompt, and ends it after a turn."""

    def start(self) -> None:
        """Nothing is needed."""

    def submit(self, calls: Sequence[Call]) -> Done:
        """Answer at once."""
        return Done([Answer(own_opening(call.prompt)) if isinstance(call, Begin) else OVER for call in calls])

    def end(self, episodes: Sequence[int]) -> Done:
        """Nothing is kept."""
        return Done([])

    def close(self) -> None:
        """Nothing was started."""
