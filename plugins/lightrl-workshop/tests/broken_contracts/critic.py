"""One class for each check of the contract of critics, which breaks that check."""

from __future__ import annotations

from typing import Any

import torch
from broken_contracts.wrong import per_token, whole_batch, wrong

from lightrl import ValueHead

KIND = "critic"


class Silent(torch.nn.Module):
    """Has nothing to learn."""

    def forward(self, input_ids: Any, hidden: Any) -> Any:
        return hidden[..., 0]


away = {"loss": lambda self, values, old, returns: -(values - returns).square()}
unweighed = {"aggregation": property(lambda self: None, lambda self, value: None)}
BROKEN = (
    per_token(ValueHead, "loss", second=2)
    | whole_batch(ValueHead, "weights", of="its weights: ")
    | {
        "its coefficient, learning rate and aggregation are valid": wrong(ValueHead, **unweighed),
        "it predicts a number per token": wrong(ValueHead, build=lambda self, policy: Silent()),
        "its loss is least at the returns and pulls towards them": wrong(ValueHead, **away),
    }
)
