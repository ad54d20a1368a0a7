"""The completions that succeeded, over all ranks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from lightrl import Prompt, Ranks, TrainingBatch


class Completion(NamedTuple):
    """A scored completion."""

    prompt: str
    """The id of its prompt."""
    level: str
    """The prompt's level."""
    score: float
    """From 0, failed, to 1, succeeded."""


def completions(learnt: TrainingBatch, ranks: Ranks, metric: str | None, level: str | None = None) -> list[Completion]:
    """The scorable completions of all ranks, in an order that depends on nothing but them.

    Args:
        learnt: rows of this rank.
        ranks: that share the rollout.
        metric: name of the raw reward; None: the only one. Scores below 0 count as 0, and above 1 as 1.
        level: name of a column; None: all prompts have one level.
    """
    part = learnt.reward_parts[deciding(list(learnt.reward_parts), metric)]
    scores = (part if part.dim() == 1 else part.nansum(1)).clamp(0, 1).tolist()
    rows = zip(learnt.prompts, scores, learnt.scorable.tolist(), strict=True)
    mine = [[prompt.id, level_of(prompt, level), score] for prompt, score, scorable in rows if scorable and score == score]
    return sorted(Completion(*row) for of_rank in ranks.gather(mine) for row in of_rank)


def level_of(prompt: Prompt, column: str | None) -> str:
    """The level of a prompt.

    Args:
        prompt: any.
        column: that tells the level; None: there is one level.

    Raises:
        ValueError: the prompt has no such column.
    """
    if column is not None and column not in prompt.columns:
        raise ValueError(f"algorithm.sampler.level is {column!r}, and prompt {prompt.id!r} has the columns {sorted(prompt.columns)}")
    return "" if column is None else json.dumps(prompt.columns[column], sort_keys=True)


def deciding(rewards: Sequence[str], name: str | None) -> str:
    """The name of the reward that says whether a completion succeeded.

    Args:
        rewards: the names that there are.
        name: as given; None: the only one there is.

    Raises:
        ValueError: there is no reward of that name, or none is named and there are several.
    """
    names = sorted(rewards)
    if name in names or (name is None and len(names) == 1):
        return name or names[0]
    asked = "null, and there are several rewards" if name is None else f"{name!r}, and no reward is named so"
    raise ValueError(f"algorithm.sampler.metric is {asked}: name the one that says whether a completion succeeded, of {', '.join(names)}")
