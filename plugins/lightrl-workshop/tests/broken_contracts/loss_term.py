"""One class for each check of the contract of loss terms, which breaks that check."""

from __future__ import annotations

import torch
from broken_contracts.wrong import whole_batch, wrong

from lightrl import Entropy, EntropyBonus, PositiveNLL

KIND = "loss term"

mixing = {"loss": lambda self, rows, output: -output.logprobs * torch.arange(len(rows))[:, None]}
BROKEN = whole_batch(PositiveNLL, "weights", of="its weights: ") | {
    "each of its tokens gets a finite loss, computed from what it needs": wrong(EntropyBonus, outputs=()),
    "rows and masked positions have no influence on each other": wrong(PositiveNLL, **mixing),
    "with a coefficient of 0 it needs nothing": wrong(EntropyBonus, outputs=(Entropy(),)),
}
