"""One call of a row reward: its arguments, and what it returned as plain numbers."""

from __future__ import annotations

import copy
import inspect
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from lightrl.parts.function import accepted_names
from lightrl.parts.reward import RowReward
from lightrl.prompt import Prompt
from lightrl.workers.calls import Answer, answered

if TYPE_CHECKING:
    # worker processes import this module, and most of them have no use for torch
    from lightrl.types import Rollout

PlainScore = float | list[float | None] | str | None
"""A number, a list of numbers and gaps, or None; or a text that describes what was returned, if it is nothing of these."""
SHOWN = 60
"""Characters of a wrong value that are shown."""

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


def calls_of(names: dict[str, bool] | None, rollout: Rollout) -> list[Call]:
    """One call per row; what a reward writes into its arguments reaches nobody else.

    Args:
        names: the arguments that the reward takes by name; None: any column, and no facts of the episode.
    """
    copies: dict[int, tuple[Prompt, dict[str, Any]]] = {}
    facts = FACTS & frozenset(names or ())
    made = []
    for row, (given, completion) in enumerate(zip(rollout.prompts, rollout.completions, strict=True)):
        if id(given) not in copies:
            # a prompt of the reward's own, and its columns that the reward takes by name
            own = copy.deepcopy(given)
            every = {**own.columns, "answer": own.answer}
            taken = {k: v for k, v in every.items() if k not in ("prompt", "completion") and (names is None or k in names)}
            copies[id(given)] = own, taken
        prompt, columns = copies[id(given)]
        made.append(Call(prompt, completion, {**columns, **_facts(rollout, row, facts)} if facts else columns))
    return made


def _facts(rollout: Rollout, row: int, facts: frozenset[str]) -> dict[str, Any]:
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


class RowPerformer:
    """Makes the calls of a reward, in this process or in a worker."""

    def __init__(self, reward: RowReward) -> None:
        self._reward = reward

    def perform(self, call: Call) -> Answer:
        """Make one call; the value is a `PlainScore`."""
        return answered(lambda: plain_score(self._reward.score(call.prompt, call.completion, **call.columns)))


def plain_score(returned: object) -> PlainScore:
    """The plain form of a score, made where the reward is called: what a value of the reward's own class does to be read happens there.

    An integer that is too large for a float is infinite.

    Args:
        returned: a number, a list or a tuple of numbers, None, or whatever has a `tolist` that gives one of these.
    """
    # numpy and torch values are welcome without this file importing numpy
    to_list = getattr(returned, "tolist", None)
    plain: object = returned if to_list is None else to_list()
    if plain is None or isinstance(plain, (int, float)):
        return None if plain is None else _number(plain)
    if isinstance(plain, (list, tuple)) and all(value is None or isinstance(value, (int, float)) for value in plain):
        return [None if value is None else _number(value) for value in plain]
    return f"{type(returned).__name__} {str(returned)[:SHOWN]!r}"


def _number(value: float) -> float:
    # a subclass may have a float() of its own
    if isinstance(value, float):
        return float.__float__(value)
    exact = int.__index__(value)
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
