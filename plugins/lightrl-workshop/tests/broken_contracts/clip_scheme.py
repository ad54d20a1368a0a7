"""One class for each check of the contract of clip schemes, which breaks that check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from broken_contracts.wrong import wrong

from lightrl import NoClip, Surrogate

KIND = "clip scheme"


def surrogates(loss: Callable[..., Any], low: Any = None) -> Any:
    def surrogate(self: Any, log_ratio: Any, advantages: Any, old_logprobs: Any, mask: Any) -> Surrogate:
        nowhere = torch.zeros_like(mask)
        value = loss(log_ratio, advantages, mask)
        return Surrogate(value, nowhere if low is None else low(log_ratio), nowhere)

    return surrogate


CLIPS = {
    "it returns a loss and two masks per token": lambda x, a, m: -(x.exp() * a).sum(1),
    "masked positions have no influence": lambda x, a, m: -x.exp() * a.mean(1, keepdim=True),
    "rows have no influence on each other": lambda x, a, m: -(x - x.detach().mean()).exp() * a,
    "padding changes nothing": lambda x, a, m: -x.exp() * a / x.shape[1],
    "a positive advantage raises a token's probability and a negative one lowers it": lambda x, a, m: x.exp() * a,
    "silent_without_advantage is declared only if rows without an advantage have no gradient": lambda x, a, m: -x.exp() * (a + 0.1),
    "row_constant is declared if and only if all tokens of a row have one loss": lambda x, a, m: (
        -(torch.where(m, x * a, 0.0).sum(1, keepdim=True)).expand_as(x)
    ),
}
everything = surrogates(lambda x, a, m: -x.exp() * a, low=lambda x: torch.ones_like(x, dtype=torch.bool))
BROKEN = {title: wrong(NoClip, surrogate=surrogates(loss)) for title, loss in CLIPS.items()} | {
    "tokens reported as clipped have no gradient": wrong(NoClip, surrogate=everything)
}
