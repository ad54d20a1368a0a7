"""Classes that are wrong in one way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def wrong(base: type[Any], **members: Any) -> type[Any]:
    """A documented subclass with these members."""
    return type(f"Wrong{base.__name__}", (base,), {"__doc__": "Broken on purpose.", **members})


PER_TOKEN: dict[str, Callable[[Any, Any], Any]] = {
    "it gives each token a finite number": lambda a, b: (a - b) / 0.0,
    "masked positions have no influence": lambda a, b: a - b.mean(1, keepdim=True),
    "rows have no influence on each other": lambda a, b: a - b.mean(),
    "padding changes nothing": lambda a, b: (a - b) / a.shape[1],
}
"""A number per token of a micro-batch from two."""


def per_token(base: type[Any], method: str, second: int = 1) -> dict[str, type[Any]]:
    """Classes whose method breaks each of `per_token_checks`, from its first argument and the one at this place."""
    return {title: wrong(base, **{method: lambda self, *given, of=of: of(given[0], given[second])}) for title, of in PER_TOKEN.items()}


WHOLE_BATCH: dict[str, Callable[[Any], Any]] = {
    "every number is finite and at least 0": lambda r: -torch.ones_like(r.token_rewards),
    "every number is finite": lambda r: r.token_rewards / 0,
    "masked positions and failed rows have no influence": lambda r: r.old_logprobs.mean(1, keepdim=True).abs().expand_as(r.token_rewards),
    "another order of rows gives the same results in that order": lambda r: (
        torch.ones_like(r.token_rewards) * torch.arange(len(r))[:, None]
    ),
    "splitting a batch over ranks changes nothing": lambda r: torch.ones_like(r.token_rewards) / len(r),
    "padding changes nothing": lambda r: torch.ones_like(r.token_rewards) / r.token_rewards.shape[1],
}
"""A number per token of an experience."""


def whole_batch(base: type[Any], method: str, signed: bool = False, of: str = "") -> dict[str, type[Any]]:
    """Classes whose method breaks each of `whole_batch_checks`; the arguments are those of that function."""
    other = "every number is finite and at least 0" if signed else "every number is finite"
    titles = [title for title in WHOLE_BATCH if title != other]
    return {f"{of}{title}": wrong(base, **{method: lambda self, rows, *given, of=WHOLE_BATCH[title]: of(rows)}) for title in titles}
