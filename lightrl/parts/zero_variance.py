"""Groups with zero variance: all completions scored the same on one raw reward, so that nothing can be learned from them."""

from __future__ import annotations

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
