"""Outliers: the scores that a person should read first, since labels or other scores contradict them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

CLOSE = 1e-4
"""Scores and labels that differ by no more, relative to the larger or absolute, agree."""


@dataclass(frozen=True)
class Labels:
    """Labels that scores are compared with."""

    scores: Tensor
    """`[n]`, NaN without one."""
    expected: Tensor
    """`[n]`, NaN where there is no label."""
    binary: bool
    """Labels say right or wrong: a score above 0 is right."""

    @property
    def compared(self) -> Tensor:
        """`[n]` bool: there is both a label and a score."""
        return ~self.expected.isnan() & ~self.scores.isnan()

    @property
    def unanswered(self) -> int:
        """Labels without a score."""
        return int((~self.expected.isnan() & self.scores.isnan()).sum())

    @property
    def disagreeing(self) -> Tensor:
        """`[n]` bool: the score is not what the label says."""
        if self.binary:
            return self.compared & ((self.scores > 0) != (self.expected > 0))
        return self.compared & ~torch.isclose(self.scores, self.expected, rtol=CLOSE, atol=CLOSE)

    @property
    def correlation(self) -> float:
        """Pearson's, over the compared rows; NaN where either side is constant."""
        x, y = self.scores[self.compared].double(), self.expected[self.compared].double()
        if len(x) < 2 or x.std() == 0 or y.std() == 0:
            return math.nan
        return float(torch.corrcoef(torch.stack([x, y]))[0, 1])


def from_labels(labels: Labels) -> Tensor:
    """`[n]`: |score - label| where they disagree, else 0."""
    return torch.where(labels.disagreeing, (labels.scores - labels.expected).abs(), 0.0)


def from_others(total: Tensor, group: Tensor) -> Tensor:
    """`[n]`: |total - mean of the prompt's other completions| / std of all totals; 0 without a total.

    The only completion of a prompt is compared with all others of the file. 0 everywhere if all totals are equal.

    Args:
        total: `[n]`, NaN without one.
        group: `[n]` int64.
    """
    valid = ~total.isnan()
    values = torch.where(valid, total.double(), 0.0)
    spread = values[valid].std(correction=0) if valid.any() else values.sum()
    if spread <= 1e-9 * values.abs().max().clamp(min=1e-9):
        return torch.zeros_like(values)
    _, index = torch.unique(group, return_inverse=True)

    def summed(rows: Tensor) -> Tensor:
        return torch.zeros(len(rows), dtype=rows.dtype).index_add(0, index, rows)[index]

    count, mass = summed(valid.double()), summed(values)
    alone = count < 2
    count, mass = torch.where(alone, valid.sum(), count), torch.where(alone, values.sum(), mass)
    others = (mass - values) / (count - 1).clamp(min=1)
    return torch.where(valid, (values - others).abs() / spread, 0.0)


def disagreement(contributions: dict[str, Tensor]) -> Tensor:
    """`[n]`: the largest z-score of a reward less the smallest, over the part of each in the total; 0 where fewer than two vary.

    Args:
        contributions: per reward `[n]`, NaN without a score.
    """
    z = []
    for values in contributions.values():
        known = values[~values.isnan()].double()
        if len(known) > 1 and known.std(correction=0) > 0:
            z.append((values.double() - known.mean()) / known.std(correction=0))
    if len(z) < 2:
        return torch.zeros(len(next(iter(contributions.values()))), dtype=torch.float64)
    stacked = torch.stack(z)
    return (stacked.amax(0) - stacked.amin(0)).nan_to_num(0.0)


def largest_outliers(deviation: Tensor, contributions: dict[str, Tensor], n: int) -> list[int]:
    """Indices of at most n rows with the largest deviation above 0; among equals, those whose rewards are furthest apart."""
    tie = disagreement(contributions).tolist()
    rows = (deviation > 0).nonzero()[:, 0].tolist()
    return sorted(rows, key=lambda i: (-round(float(deviation[i]), 9), -tie[i], i))[:n]
