"""The calls of the episodes under way, so that an episode whose place is gone is brought to the same point in another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lightrl.environments.episodes import OVER, Begin, Call, End
from lightrl.prompt import JSON
from lightrl.workers.calls import Answer
from lightrl.workers.process_place import FreeCalls, Step

CHANGED = (
    "it was brought to the same point in a fresh place and answered something else there: replies must be a function of the prompt, "
    "the seed and what the policy said"
)


@dataclass
class _Past:
    calls: list[tuple[Call, JSON]] = field(default_factory=list)
    failure: Answer | None = None


class History(FreeCalls[Call]):
    """The calls of every episode with their answers, and which episodes have a copy of the environment in the present place."""

    def __init__(self) -> None:
        self._past: dict[int, _Past] = {}
        self._present: set[int] = set()

    @staticmethod
    def home(call: Call) -> int:
        """The number of the episode, whose calls stay with one worker."""
        return call.episode

    def worker_is_gone(self) -> None:
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
