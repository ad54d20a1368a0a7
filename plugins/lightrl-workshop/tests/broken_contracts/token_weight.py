"""One class for each check of the contract of token weights, which breaks that check."""

from __future__ import annotations

import torch
from broken_contracts.wrong import whole_batch, wrong

from lightrl import MaskTruncated

KIND = "token weight"

first_never = {"in_statistics": lambda self, rows: torch.arange(len(rows)) > 0}
by_reward = {"weights": lambda self, rows: (rows.rewards > 0.5)[:, None].to(rows.token_rewards).expand_as(rows.token_rewards)}
BROKEN = whole_batch(MaskTruncated, "weights") | {
    "which rows count is decided row by row": wrong(MaskTruncated, **first_never),
    "needs_rewards is declared if weights depend on rewards": wrong(MaskTruncated, **by_reward),
}
