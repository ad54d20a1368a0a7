"""An event loop as a place: many calls wait at once, and a loop that is blocked is abandoned for another."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from typing import Generic

from lightrl.workers.calls import Answer, Place, use_result
from lightrl.workers.event_loop import C, CallLoop
from lightrl.workers.process_ends import CLOSE_TIMEOUT_S


class LoopPlace(Place, Generic[C]):
    """Makes calls in an event loop of the part's own, which runs in a thread."""

    def __init__(self, make: Callable[[], CallLoop[C]], timeout_s: float) -> None:
        self._make, self._timeout_s = make, timeout_s
        self._loop: CallLoop[C] | None = None

    @property
    def started(self) -> bool:
        return self._loop is not None

    @property
    def limit(self) -> float:
        """Seconds after which a loop that stands still is abandoned."""
        return self._timeout_s + CLOSE_TIMEOUT_S

    def start(self) -> None:
        self.current()

    def submit(self, calls: Sequence[C]) -> LoopCalls[C]:
        return LoopCalls(self, calls)

    def close(self) -> None:
        """Let the part give back what it has opened, and end the loop."""
        if self._loop is not None:
            self._loop.close(CLOSE_TIMEOUT_S)
            self._loop = None

    def current(self) -> CallLoop[C]:
        """The loop that runs now."""
        return self._loop or self._run_in(self._make())

    def abandon(self, loop: CallLoop[C]) -> None:
        """Give up a loop that stands still; nothing if another call has found that before."""
        if self._loop is loop:
            loop.abandoned, self._loop = True, None
            successor = loop.successor()
            loop.end()
            if successor is not None:
                self._run_in(successor)

    def fail(self, call: C) -> None:
        """Have the loop that runs now, if there is one, take note that a call has failed."""
        if self._loop is not None:
            self._loop.fail(call)

    def _run_in(self, loop: CallLoop[C]) -> CallLoop[C]:
        weakref.finalize(self, loop.end)
        self._loop = loop
        return loop


class LoopCalls(Generic[C]):
    """Calls under way in an event loop."""

    def __init__(self, place: LoopPlace[C], calls: Sequence[C]) -> None:
        self._place, self._calls = place, calls
        self._answers: dict[int, Answer] = {}
        self._submit()

    def result(self) -> Sequence[Answer]:
        """Wait for the answers; an interrupt takes back what was asked."""
        while not self._answered():
            self._submit()
        return [self._answers[place] for place in range(len(self._calls))]

    def when_done(self, use: Callable[[Sequence[Answer]], None]) -> None:
        """Call a function with the answers, unless the loop is abandoned."""
        answers = self._answers
        self._future.add_done_callback(lambda future: use_result(future, lambda _: use(list(answers.values()))))

    def _submit(self) -> None:
        self._loop = self._place.current()
        self._future = self._loop.run(self._loop.answer(self._calls, self._answers))

    def _answered(self) -> bool:
        """Every call has an answer; False: some were only queued behind one that blocks the loop."""
        limit = self._place.limit
        try:
            if self._loop.wait(self._future, limit):
                return True
        except CancelledError:
            # an abandoned loop cancels everything once it runs again
            if not self._loop.abandoned:
                self._fail(lambda call: True, "has cancelled everything in its event loop")
                return True
        self._place.abandon(self._loop)
        self._fail(self._loop.blocked_by, f"has blocked its event loop for {limit:g} s: it must await, not wait", limit)
        return len(self._answers) == len(self._calls)

    def _fail(self, concerns: Callable[[C], bool], why: str, late_after: float | None = None) -> None:
        # the loop may still put answers into the mapping that it knows
        self._answers = dict(self._answers)
        for place, call in enumerate(self._calls):
            if place not in self._answers and concerns(call):
                error = f"{self._loop.method(call)} {why}"
                self._answers[place] = Answer(error=error, late=late_after is not None, seconds=late_after or 0.0)
                self._place.fail(call)
