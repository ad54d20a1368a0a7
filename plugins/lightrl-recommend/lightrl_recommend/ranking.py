"""Algorithms in order of what they learnt, each compared with the best on the same seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from scipy.special import stdtrit

from lightrl_recommend.measured import Measured, Row, Situation

CONFIDENCE = 0.95


class Rank(NamedTuple):
    """An algorithm in a ranking."""

    algorithm: str
    package: str
    critic: bool
    share: float
    """Mean share of the way to the best score, over tasks and seeds."""
    rates: tuple[float, ...]
    """Its learning rate in each task."""
    behind: float
    """Mean of the paired differences from the best one; 0 for itself."""
    half: float
    """Half the width of their interval."""

    @property
    def told_apart(self) -> bool:
        """The interval of its difference from the best one is below 0."""
        return self.behind + self.half < 0


def closest(situations: Sequence[Situation], answers: Mapping[str, str]) -> list[Situation]:
    """The situations that agree with the most answers; a question that a situation has no answer to agrees with any.

    Args:
        situations: that were measured.
        answers: to some of the questions.
    """
    most = max(agreement(situation, answers) for situation in situations)
    return [situation for situation in situations if agreement(situation, answers) == most]


def agreement(situation: Situation, answers: Mapping[str, str]) -> int:
    """To how many answers a situation agrees."""
    return sum(situation.answers.get(question, answer) == answer for question, answer in answers.items())


def ranking(results: Measured, situations: Sequence[Situation]) -> list[Rank]:
    """Algorithms that were measured in all of some situations, the best first.

    difference_s = share_s(algorithm) - share_s(best), over tasks and seeds s; its interval is Student's.

    Args:
        results: with the same seeds for every algorithm of a situation.
        situations: at least one.
    """
    rows = {(row.task, row.algorithm): row for row in results.rows}
    names = dict.fromkeys(row.algorithm for row in results.rows)
    of = {name: [rows[at] for each in situations if (at := (each.name, name)) in rows] for name in names}
    whole = {name: found for name, found in of.items() if len(found) == len(situations)}
    shares = {name: [share for row in found for share in row.shares] for name, found in whole.items()}
    order = sorted(shares, key=lambda name: -statistics.mean(shares[name]))
    return [_rank(whole[name], shares[name], shares[order[0]]) for name in order]


def mean_and_half(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and half the width of its interval by Student's t; infinite for a single value."""
    if len(values) < 2:
        return statistics.mean(values), math.inf
    quantile = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2))
    return statistics.mean(values), quantile * statistics.stdev(values) / math.sqrt(len(values))


def _rank(rows: Sequence[Row], shares: Sequence[float], best: Sequence[float]) -> Rank:
    behind, half = mean_and_half([own - other for own, other in zip(shares, best, strict=True)])
    first = rows[0]
    return Rank(first.algorithm, first.package, first.critic, statistics.mean(shares), tuple(row.rate for row in rows), behind, half)
