"""One class for each check of the contract of reward shapings, which breaks that check."""

from __future__ import annotations

import torch
from broken_contracts.wrong import whole_batch, wrong

from lightrl import OutcomeShaping

KIND = "reward shaping"


class Shaping(OutcomeShaping):
    """Broken on purpose."""

    def __init__(self) -> None:
        super().__init__(missing_eos_penalty=1.0)


everywhere = {"rewards": lambda self, rows, given: torch.ones_like(given)}
BROKEN = whole_batch(Shaping, "rewards", signed=True) | {
    "rewards stay on sampled tokens of rows that were scored": wrong(Shaping, **everywhere)
}
