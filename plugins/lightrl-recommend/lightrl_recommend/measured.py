"""The results of all runs: scores of algorithms in situations, before and after training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, NamedTuple

QUESTIONS = {
    "reward": "What says how good a completion is?",
    "start": "How often is a completion right before training?",
    "turns": "How many turns does an episode have?",
    "steps": "How many optimizer steps is a rollout to give?",
}
"""By what is asked for, in their order."""
ANSWERS = {
    "reward": {
        "exact": "a check that says right or wrong",
        "graded": "a score with steps between wrong and right",
        "judge": "a judge or a reward model, which is sometimes mistaken",
    },
    "start": {"often": "one time in five, or more", "seldom": "one time in ten, or less"},
    "turns": {"one": "one", "several": "several: tools, a game, a conversation"},
    "steps": {"few": "one or two: completions are cheap", "many": "about eight: completions cost more than steps"},
}
"""Of each question, and what they say."""


class Situation(NamedTuple):
    """A task, in which several algorithms made equally many completions."""

    name: str
    text: str
    """In words."""
    model: str
    """The policy that learnt."""
    completions: int
    """Of each run."""
    answers: Mapping[str, str]
    """One to each of `QUESTIONS` that the task can be said to have an answer to."""


@dataclass(frozen=True)
class Row:
    """An algorithm in a situation; its scores are in the order of the seeds."""

    task: str
    algorithm: str
    package: str
    critic: bool
    """It trains a critic beside the policy."""
    rate: float
    """Learning rate; where several were tried, the best one over all seeds."""
    before: tuple[float, ...]
    """Held-out scores, of which the best possible is 1."""
    after: tuple[float, ...]

    @property
    def shares(self) -> tuple[float, ...]:
        """The way from the start to the best possible score that each seed has come: (after - before) / (1 - before)."""
        return tuple((after - before) / (1 - before) for before, after in zip(self.before, self.after, strict=True))


class Measured(NamedTuple):
    """All situations, and all rows."""

    situations: tuple[Situation, ...]
    rows: tuple[Row, ...]


def measured() -> Measured:
    """The results in this package, which `make learn TASK=which` has written."""
    return read(json.loads(files("lightrl_recommend").joinpath("measured.json").read_text()))


def read(content: Mapping[str, Any]) -> Measured:
    """Results from a JSON value.

    Args:
        content: `situations` and `rows`, each a list of objects with the fields of its class.
    """
    situations = tuple(Situation(**each) for each in content["situations"])
    rows = tuple(Row(**{**each, "before": tuple(each["before"]), "after": tuple(each["after"])}) for each in content["rows"])
    return Measured(situations, rows)
