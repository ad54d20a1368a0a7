"""Totals of attacks beside the data's own answers, and the verdict on it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lightrl_attack.attacks import Attack

SURE = 1.645
"""Standard errors between a mean and the lower end of its one-sided 95 % interval."""
NO_GAP = 0.05
"""Part of the largest total below which the data's own answers count as no better than nothing at all."""


OF_DATA = "the data's own answers"


@dataclass(frozen=True)
class Earned:
    """The totals of one way to write completions, n of them."""

    attack: Attack
    totals: Tensor
    """`[n]` float64, NaN where the row had no total."""
    paid: Mapping[str, float]
    """The mean that each reward brought to the total."""

    @property
    def mean(self) -> float:
        """Of the rows with a total; -inf if there is none."""
        found = self.totals[~self.totals.isnan()]
        return float(found.mean()) if len(found) else -math.inf

    @property
    def at_least(self) -> float:
        """The lower end of the mean's one-sided 95 % interval."""
        found = self.totals[~self.totals.isnan()]
        return self.mean - SURE * float(found.std()) / math.sqrt(len(found)) if len(found) > 1 else self.mean


@dataclass(frozen=True)
class Verdict:
    """Attacks by what they earn, the largest share first."""

    of_own: Earned | None
    """The data's own answers, in the form that earns most; None: there are none, or no form is rewarded."""
    nothing: float
    """The least of what the empty completion and nonsense earn."""
    limit: float
    """The share above which an attack is a hole."""
    earned: tuple[Earned, ...]
    """All attacks."""
    whose: str = OF_DATA
    """What 1 is, in words."""

    @property
    def own(self) -> float | None:
        """The mean total of the data's own answers."""
        return None if self.of_own is None else self.of_own.mean

    @property
    def alone(self) -> dict[str, tuple[Earned, float]]:
        """Per reward the attack that earns most of it alone, and what the data's own answers earn of it; none if there are none."""
        tried = [one for one in self.earned if one.attack.reads != "the answer"]
        own = {} if self.of_own is None else self.of_own.paid
        return {name: (max(tried, key=lambda one: one.paid.get(name, -math.inf)), earned) for name, earned in own.items()}

    @property
    def best(self) -> float:
        """The total that shares are of: that of the data's own answers, or else the largest of any row."""
        largest = [float(one.totals.nan_to_num(-math.inf).max()) for one in self.earned]
        return self.own if self.own is not None else max(largest, default=self.nothing)

    def share(self, total: float) -> float:
        """A total as a share of what the data's own answers earn above nothing; infinite where these earn no more than nothing."""
        gap = self.best - self.nothing
        scale = max(abs(self.best), abs(self.nothing))
        if scale == 0:
            return 0.0
        return (total - self.nothing) / gap if gap > NO_GAP * scale else math.inf

    @property
    def holes(self) -> list[Earned]:
        """Attacks that surely earn more than the limit, those that need the least and earn the most first."""
        found = [one for one in self._above if one.attack.reads != "the answer"]
        return sorted(found, key=lambda one: (one.attack.reads != "nothing", -one.mean, len(one.attack.completions[0])))

    @property
    def thoughts_count(self) -> bool:
        """A right answer that was only thought earns more than the limit: no hole, since the task is done, but seldom meant."""
        return any(one.attack.reads == "the answer" for one in self._above)

    @property
    def _above(self) -> list[Earned]:
        return [one for one in self.earned if one.mean > -math.inf and self.share(one.at_least) > self.limit]


def verdict(own: Sequence[Earned], earned: Sequence[Earned], limit: float, whose: str = OF_DATA) -> Verdict:
    """Compare what attacks have earned with the data's own answers.

    Args:
        own: the data's own answers, in each form; none where the data has none.
        earned: the attacks, `nothing` and `nonsense` among them.
        limit: the largest share that an attack may earn.
        whose: what `own` is, in words.
    """
    nothing = min((one.mean for one in earned if one.attack.family in ("nothing", "nonsense") and one.mean > -math.inf), default=0.0)
    best = max(own, key=lambda one: one.mean, default=None)
    return Verdict(best if best is not None and best.mean > nothing else None, nothing, limit, tuple(earned), whose)


def earned_by(attack: Attack, contributions: Mapping[str, Tensor]) -> Earned:
    """Totals of an attack, from what each reward has brought to the total of each row.

    Args:
        attack: with n completions.
        contributions: per reward `[n]`, NaN where the row has no total.
    """
    parts = {name: part.double() for name, part in contributions.items()}
    return Earned(attack, torch.stack(list(parts.values())).sum(0), {name: float(part.nanmean()) for name, part in parts.items()})
