"""The completions that succeeded, over all ranks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from lightrl import GroupSampler, Prompt, Ranks, TrainingBatch, deciding_reward, metric_of


class SuccessSampler(GroupSampler):
    """The base of samplers that remember which completions succeeded, by one raw reward."""

    def __init__(self, group_size: int, metric: str | None, slices: int) -> None:
        """
        Args:
            group_size: completions per prompt.
            metric: name of the raw reward that says what succeeded, from 0 to 1; null: the only one.
            slices: as in `GroupSampler`.
        """
        super().__init__(group_size, slices)
        self.metric = metric

    def check(self, rewards: Sequence[str]) -> None:
        """See `Sampler.check`: `metric` names one reward."""
        deciding_reward(rewards, self.metric)


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
    scores = metric_of(learnt, metric).clamp(0, 1).tolist()
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
