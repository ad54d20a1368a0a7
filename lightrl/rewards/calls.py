"""Calling row rewards: every row gets an answer, and an exception is one of them."""

from __future__ import annotations

import inspect
import traceback
from dataclasses import dataclass
from typing import Any

from lightrl.parts.function import Function, accepted_names
from lightrl.parts.reward import RowReward
from lightrl.types import Prompt, Rollout

BY_POSITION = 2
"""`RowReward.score` takes prompt and completion by position, whatever a subclass calls them."""
RESERVED = frozenset({"prompt", "completion", "answer"})
"""Names that a reward's argument has without a column."""


@dataclass(frozen=True)
class Answer:
    """What a reward said of one row."""

    score: Any = None
    """What it returned, if it returned."""
    error: str | None = None
    """Why it failed, with the line that raised; None if it returned."""


def call_rows(reward: RowReward, rollout: Rollout) -> list[Answer]:
    """One answer per row, in order."""
    names = named_arguments(reward)
    return [_call(reward, prompt, text, names) for prompt, text in zip(rollout.prompts, rollout.completions, strict=True)]


def named_arguments(reward: RowReward) -> dict[str, bool] | None:
    """The arguments that a reward takes by name, each with whether it must be given; None if it takes any."""
    if isinstance(reward, Function):
        return reward.accepts
    accepts = accepted_names(reward.score)
    if accepts is None:
        return None
    positional = list(inspect.signature(reward.score).parameters)[:BY_POSITION]
    return {name: required for name, required in accepts.items() if name not in positional}


def _call(reward: RowReward, prompt: Prompt, completion: str, names: dict[str, bool] | None) -> Answer:
    columns = {**prompt.columns, "answer": prompt.answer}
    given = {k: v for k, v in columns.items() if k not in ("prompt", "completion") and (names is None or k in names)}
    try:
        return Answer(score=reward.score(prompt, completion, **given))
    except Exception as error:
        return Answer(error=describe(error))


def describe(error: Exception) -> str:
    """The exception in one line, with the file and line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    message = str(error).strip().splitlines()
    return f"{type(error).__name__}{': ' + message[0] if message else ''}{place}"
