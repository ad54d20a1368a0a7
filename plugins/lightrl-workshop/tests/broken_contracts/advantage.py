"""One class for each check of the contract of advantages, which breaks that check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from broken_contracts.wrong import wrong

from lightrl import Advantages, GroupCentered, broadcast_to_tokens

KIND = "advantage"


def computes(of: Callable[[Any], Any]) -> Any:
    return lambda self, rows: Advantages(of(rows))


def counting(self: Any, rows: Any) -> Advantages:
    self.seen = getattr(self, "seen", 0) + 1
    return Advantages(broadcast_to_tokens(self.seen * rows.rewards, rows))


def remembering(self: Any, rows: Any) -> Advantages:
    return Advantages(broadcast_to_tokens((1 + getattr(self, "rollouts", 0)) * rows.rewards, rows))


def remember(self: Any) -> None:
    self.rollouts = getattr(self, "rollouts", 0) + 1


class Forgetful(GroupCentered):
    """Broken on purpose: it remembers the mean reward of the rows of its own rank, and forgets to gather those of the others."""

    mean = 0.0

    def compute(self, experience: Any) -> Advantages:
        self.now = float(experience.rewards[experience.scorable].mean().nan_to_num())
        return Advantages(broadcast_to_tokens(experience.rewards - self.mean, experience))

    def commit(self) -> None:
        self.mean = 0.9 * self.mean + 0.1 * self.now


ADVANTAGES = {
    "advantages have the shape of the tokens and are 0 where nothing was sampled or scored": lambda r: r.rewards,
    "masked positions and failed rows have no influence": lambda r: broadcast_to_tokens(r.token_rewards.sum(1), r),
    "failed rows leave the statistics": lambda r: broadcast_to_tokens(r.rewards - r.rewards.mean(), r),
    "rows that are all masked get 0": lambda r: r.response_mask * r.rewards[r.scorable].mean(),
    "another order of rows gives the same results in that order, and group numbers are only names": lambda r: broadcast_to_tokens(
        torch.arange(len(r)), r
    ),
    "padding changes nothing": lambda r: broadcast_to_tokens(torch.full((len(r),), r.input_ids.shape[1]), r),
    "splitting a batch over ranks changes nothing": lambda r: broadcast_to_tokens(r.group, r),
    "better rows never get less, and in some groups more": lambda r: broadcast_to_tokens(-r.rewards, r),
    "equal rewards give exactly 0 where completions of one prompt are compared": lambda r: broadcast_to_tokens(r.rewards, r),
    "it runs without the fields that it does not need": lambda r: r.values + 0 * r.ref_logprobs,
}
BROKEN = (
    {"compares is declared where a completion that is alone in its group gets 0, whatever its reward": wrong(GroupCentered, compares=False)}
    | {title: wrong(GroupCentered, compute=computes(of)) for title, of in ADVANTAGES.items()}
    | {
        "what it remembers is the same however prompts are spread over ranks": Forgetful,
        "compute changes nothing before commit": wrong(GroupCentered, compute=counting),
        "its history survives a restart": wrong(GroupCentered, compute=remembering, commit=remember),
    }
)
