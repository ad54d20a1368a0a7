"""One class for each check of the contract of token weights, which breaks that check."""

from __future__ import annotations

import torch
from broken_contracts.wrong import whole_batch, wrong

from lightrl import MaskTruncated

KIND = "token weight"

first_never = {"in_statistics": lambda self, rows: torch.arange(len(rows)) > 0}
BROKEN = whole_batch(MaskTruncated, "weights") | {"which rows count is decided row by row": wrong(MaskTruncated, **first_never)}
