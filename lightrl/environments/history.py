"""The calls of the episodes under way, so that an episode whose place is gone is brought to the same point in another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lightrl.environments.calls import Begin, Call, End
from lightrl.environments.episodes import OVER
from lightrl.prompt import JSON
from lightrl.workers.calls import Answer

CHANGED = (
    "it was brought to the same point in a fresh place and answered something else there: replies must be a function of the prompt, "
    "the seed and what the policy said"
)


@dataclass(frozen=True)
class Step:
    """A call that has to be made."""

    call: Call
    """The call."""
    place: int | None
    """Of its answer; None: the call is repeated, and `known` was answered."""
    known: JSON = None
    """The value that was answered before."""


@dataclass
class _Past:
    calls: list[tuple[Call, JSON]] = field(default_factory=list)
    failure: Answer | None = None


class History:
    """The calls of every episode with their answers, and which episodes have a copy of the environment in the present place."""

    def __init__(self) -> None:
        self._past: dict[int, _Past] = {}
        self._present: set[int] = set()

    def place_is_gone(self) -> None:
        """All copies are lost."""
        self._present.clear()

    def elsewhere(self) -> History:
        """A copy for another place, where no episode has a copy of the environment yet."""
        other = History()
        other._past = {number: _Past(list(past.calls), past.failure) for number, past in self._past.items()}
        return other

    def drop(self, episode: int) -> None:
        """The episode is over."""
        self._past.pop(episode, None)
        self._present.discard(episode)

    def fail(self, episode: int) -> None:
        """The episode has failed without an answer."""
        self._past.setdefault(episode, _Past()).failure = Answer(error=OVER)

    def steps(self, calls: Sequence[Call], answers: dict[int, Answer]) -> list[Step]:
        """The calls that have to be made, repeated ones among them; calls that need none are answered at once.

        Args:
            calls: at most one of each episode.
            answers: by place, those that are there; more are put in.
        """
        steps: list[Step] = []
        for place, call in enumerate(calls):
            if place in answers:
                continue
            if isinstance(call, Begin):
                self._past[call.episode] = _Past()
                steps.append(Step(call, place))
            elif isinstance(call, End):
                self._past.pop(call.episode, None)
                if call.episode in self._present:
                    steps.append(Step(call, place))
                else:
                    answers[place] = Answer()
            else:
                past = self._past.get(call.episode, _Past(failure=Answer(error=OVER)))
                if past.failure is not None:
                    answers[place] = past.failure
                    continue
                if call.episode not in self._present:
                    steps += [Step(earlier, None, known) for earlier, known in past.calls]
                steps.append(Step(call, place))
        return steps

    def note(self, step: Step, answer: Answer, answers: dict[int, Answer]) -> None:
        """Take the answer to a step.

        Args:
            step: that was made.
            answer: to it.
            answers: by place; that of a call that was asked for is put in.
        """
        episode = step.call.episode
        if isinstance(step.call, Begin):
            self._present.add(episode)
        if isinstance(step.call, End):
            self._present.discard(episode)
            answers[step.place or 0] = answer
            return
        past = self._past[episode]
        if step.place is None:
            if answer.error is not None:
                past.failure = past.failure or Answer(
                    error=f"when its calls were repeated in a fresh place: {answer.error}", late=answer.late
                )
            elif answer.value != step.known:
                past.failure = past.failure or Answer(error=CHANGED)
            return
        answers[step.place] = past.failure or answer
        if answer.error is None:
            past.calls.append((step.call, answer.value))
        past.failure = past.failure or (None if answer.error is None else Answer(error=OVER))
