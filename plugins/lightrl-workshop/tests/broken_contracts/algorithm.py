"""One class for each check of the contract of algorithms, which breaks that check."""

from __future__ import annotations

from typing import Any

import torch

from lightrl import GroupRelative, NoClip, PolicyGradient, Surrogate, TokenMean

KIND = "algorithm"

SHARED = TokenMean()


class Zero(NoClip):
    def surrogate(self, log_ratio: Any, *given: Any) -> Surrogate:
        return Surrogate(0 * log_ratio, *(torch.zeros_like(log_ratio, dtype=torch.bool),) * 2)


class Reversed(PolicyGradient):
    def surrogate(self, log_ratio: Any, advantages: Any, *given: Any) -> Surrogate:
        return super().surrogate(log_ratio, -advantages, *given)


class Sharing(GroupRelative):
    """Broken on purpose: all instances have one aggregation."""

    def _check(self) -> None:
        self.aggregation = SHARED
        super()._check()


class Motionless(GroupRelative):
    """Broken on purpose: nothing is ever clipped less than completely."""

    clip = Zero()


class Backwards(GroupRelative):
    """Broken on purpose: it unlearns."""

    clip = Reversed()


BROKEN = {
    "two instances share no part": Sharing,
    "it takes a step": Motionless,
    "it learns in the right direction": Backwards,
}
