"""One class for each check of the contract of KL controllers, which breaks that check."""

from __future__ import annotations

from typing import Any

from broken_contracts.wrong import wrong

from lightrl import AdaptiveKL

KIND = "KL controller"


def drifting(self: Any, kl: float, rows: int) -> float:
    self.calls = getattr(self, "calls", 0) + 1
    return 1.0 + self.calls


BROKEN = {
    "a larger KL never gives a smaller coefficient": wrong(AdaptiveKL, factor=lambda self, kl, rows: 1 / (1 + kl)),
    "its history survives a restart": wrong(AdaptiveKL, factor=drifting),
}
