"""One class for each check of every contract, which breaks that check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from broken_contracts.wrong import wrong

from lightrl import NoClip

KIND = "part"


def undescribed(self: Any, low: float = 0.0) -> None:
    """Says nothing of its argument."""


def stateful(value: Any) -> Callable[[Any], dict[str, Any]]:
    return lambda self: {"x": value}


def best_of_group(self: Any, step: Any) -> dict[str, torch.Tensor]:
    rewards, group = step.rows.rewards, step.rows.group
    same = group[:, None] == group
    return {"best": torch.where(same, rewards.nan_to_num(), -torch.inf).amax(1)}


BROKEN = {
    "compares is declared if what it prepares depends on which completions share a prompt": wrong(
        NoClip, gives=frozenset({"best"}), prepare=best_of_group
    ),
    "it needs only what the core gives to parts of its kind": wrong(NoClip, needs=frozenset({"ref_logprob"})),
    "the class and each of its arguments is documented and typed": wrong(NoClip, __init__=undescribed),
    "its state survives a restart": wrong(NoClip, state_dict=stateful({1, 2})),
    "what it prepares for a step depends on neither order, padding nor ranks": wrong(
        NoClip, gives=frozenset({"place"}), prepare=lambda self, step: {"place": torch.arange(len(step.rows))}
    ),
    "repr() names the class": wrong(NoClip, __repr__=lambda self: "?"),
}
