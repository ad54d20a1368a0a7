"""Groups with zero variance: all completions scored the same on one raw reward, so that nothing can be learned from them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import torch
from torch import Tensor

from lightrl.ops.groups import group_statistics
from lightrl.types import ScoredRollout


class Verdict(Enum):
    """The scores of a group by one reward."""

    SOME_VARIANCE = "some_variance"
    """Its largest and smallest scores differ."""
    ALL_RIGHT = "all_right"
    """All scores are equal and above 0."""
    ALL_WRONG = "all_wrong"
    """All scores are equal and at most 0."""
    UNSCORABLE = "unscorable"
    """Fewer than two rows have a score."""


def metric_of(scored: ScoredRollout, name: str | None) -> Tensor:
    """`[N]` f32: one raw reward of every row, a row's steps added up; NaN without a score.

    Args:
        scored: rows with their raw rewards.
        name: of the reward; None: the only one there is.

    Raises:
        ValueError: there is no reward of that name, or none is named and there are several.
    """
    part = scored.reward_parts[deciding(list(scored.reward_parts), name)]
    return part if part.dim() == 1 else torch.where(part.isnan().all(1), torch.nan, part.nansum(1))


def deciding(rewards: Sequence[str], name: str | None) -> str:
    """The name of the reward that decides.

    Args:
        rewards: the names that there are.
        name: as given; None: the only one there is.

    Raises:
        ValueError: there is no reward of that name, or none is named and there are several.
    """
    names = sorted(rewards)
    if name is None and len(names) > 1:
        raise ValueError(
            f"algorithm.sampler.metric is null, and there are several rewards: {', '.join(names)}. Name the one that decides "
            f"whether a group has zero variance, for example metric: {names[0]}"
        )
    if name is not None and name not in names:
        raise ValueError(f"algorithm.sampler.metric is {name!r}, but no reward is named so; there are: {', '.join(names)}")
    return name if name is not None else names[0]


def verdicts(scored: ScoredRollout, metric: Tensor) -> dict[int, Verdict]:
    """The verdict on every group, by its number, in ascending order; only scorable rows with a score count."""
    valid = scored.scorable & ~metric.isnan()
    statistics = group_statistics(metric, scored.group, valid)
    found = {}
    for number in torch.unique(scored.group).tolist():
        row = int((scored.group == number).nonzero()[0])
        if statistics.count[row] < 2:
            found[number] = Verdict.UNSCORABLE
        elif not statistics.zero_variance[row]:
            found[number] = Verdict.SOME_VARIANCE
        else:
            found[number] = Verdict.ALL_RIGHT if statistics.mean[row] > 0 else Verdict.ALL_WRONG
    return found
