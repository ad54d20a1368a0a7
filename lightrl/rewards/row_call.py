"""One call of a row reward: its arguments and its answer, of which an exception is one."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from lightrl.parts.function import accepted_names
from lightrl.parts.reward import RowReward
from lightrl.prompt import Prompt
from lightrl.rewards.plain_score import PlainScore, plain_score
from lightrl.workers import calls
from lightrl.workers.calls import describe
from lightrl.workers.forked import only_this_process

if TYPE_CHECKING:
    # worker processes import this module, and most of them have no use for torch
    from lightrl.types import Rollout

BY_POSITION = 2
"""`RowReward.score` takes prompt and completion by position, whatever a subclass calls them."""
FACTS = frozenset({"messages", "turns", "finish_reason", "state"})
"""Names of arguments that tell of the episode: the whole conversation, the number of the policy's turns, why it ended, and what the
environment told last."""
RESERVED = frozenset({"prompt", "completion", "answer"}) | FACTS
"""Names of arguments that every reward may have without a column."""


class Call(NamedTuple):
    """The arguments of a reward for one row."""

    prompt: Prompt
    """The prompt."""
    completion: str
    """The policy's answer."""
    columns: dict[str, Any]
    """`answer`, the other columns and the facts of the episode that the reward names."""


@dataclass(frozen=True)
class Answer:
    """A reward's answer about one row."""

    score: PlainScore = None
    """The score, if there is one."""
    error: str | None = None
    """Why there is no score, in one line; None if it returned."""
    late: bool = False
    """There is no score because the time was up."""
    gated: bool = False
    """It was not asked, since its gate was closed."""


class Pending(Protocol):
    """Calls under way."""

    def result(self) -> list[Answer]:
        """Wait for them: one answer per call, in order."""


class Runner(Protocol):
    """Makes the calls of one reward, in its own way."""

    def check(self) -> None:
        """Refuse a reward that cannot be sent to where it is to run.

        Raises:
            ValueError: says why.
        """

    def start(self) -> None:
        """Get ready in the background."""

    def submit(self, calls: Sequence[Call]) -> Pending:
        """Begin with these calls and come back at once where that is possible."""

    def close(self) -> None:
        """End everything that was started; a later `submit` starts it again."""


def calls_of(names: dict[str, bool] | None, rollout: Rollout) -> list[Call]:
    """One call per row; what a reward writes into its arguments reaches nobody else.

    Args:
        names: the arguments that the reward takes by name; None: any column, and no facts of the episode.
        rollout: N rows.
    """
    copies: dict[int, tuple[Prompt, dict[str, Any]]] = {}
    facts = FACTS & frozenset(names or ())
    made = []
    for row, (given, completion) in enumerate(zip(rollout.prompts, rollout.completions, strict=True)):
        if id(given) not in copies:
            copies[id(given)] = _copied(given, names)
        prompt, columns = copies[id(given)]
        made.append(Call(prompt, completion, {**columns, **_told(rollout, row, facts)} if facts else columns))
    return made


def _copied(given: Prompt, names: dict[str, bool] | None) -> tuple[Prompt, dict[str, Any]]:
    """A prompt of the reward's own, and its columns that the reward takes by name."""
    prompt = copy.deepcopy(given)
    every = {**prompt.columns, "answer": prompt.answer}
    return prompt, {k: v for k, v in every.items() if k not in ("prompt", "completion") and (names is None or k in names)}


def _told(rollout: Rollout, row: int, facts: frozenset[str]) -> dict[str, Any]:
    episode = rollout.episode(row)
    every = {
        "messages": list(episode.messages),
        "turns": episode.turns,
        "finish_reason": rollout.finish_reason[row],
        "state": dict(episode.state),
    }
    return copy.deepcopy({name: every[name] for name in facts})


def named_arguments(reward: RowReward) -> dict[str, bool] | None:
    """The arguments that a reward takes by name, each with whether it must be given; None if it takes any."""
    if hasattr(reward, "accepts"):
        return reward.accepts
    accepts = accepted_names(reward.score)
    if accepts is None:
        return None
    positional = list(inspect.signature(reward.score).parameters)[:BY_POSITION]
    return {name: required for name, required in accepts.items() if name not in positional}


def perform(reward: RowReward, call: Call) -> Answer:
    """Make one call in this process."""
    try:
        with only_this_process():
            return Answer(plain_score(reward.score(call.prompt, call.completion, **call.columns)))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Answer(error=describe(error))


class RowPerformer:
    """Makes the calls of a reward in a worker process."""

    def __init__(self, reward: RowReward) -> None:
        """
        Args:
            reward: to be called.
        """
        self._reward = reward

    def perform(self, call: Call) -> calls.Answer:
        """Make one call."""
        answer = perform(self._reward, call)
        return calls.Answer(answer.score, answer.error)
