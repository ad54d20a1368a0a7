"""One class for each check of the contract of aggregations, which breaks that check."""

from __future__ import annotations

import torch
from broken_contracts.wrong import wrong

from lightrl import SequenceMean, TokenMean

KIND = "aggregation"

AGGREGATIONS = {
    "tokens with a loss weigh more than 0 and others 0": lambda w, g, c: torch.ones_like(w),
    "a step in which everything is masked weighs 0": lambda w, g, c: w / c.tokens,
    "splitting a step into micro-batches and ranks changes nothing": lambda w, g, c: w / w.sum().clamp(min=1),
    "padding changes nothing": lambda w, g, c: w / w.numel(),
    "compares is declared if the weights depend on the number of prompts": lambda w, g, c: w / max(c.prompts, 1),
}
unequal = "divides_by_row_length is declared if and only if long rows weigh as much as short ones"
BROKEN = {title: wrong(TokenMean, weights=lambda self, w, g, c, of=of: of(w, g, c)) for title, of in AGGREGATIONS.items()} | {
    unequal: wrong(SequenceMean, divides_by_row_length=False)
}
