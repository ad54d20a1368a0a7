"""One class for each check of the contract of rollout engines, which breaks that check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from broken_contracts.wrong import wrong

from lightrl import Prompt, TransformersEngine

KIND = "rollout engine"


class Engine(TransformersEngine):
    """Spoils what the built-in engine generates."""

    def __init__(self) -> None:
        super().__init__(max_new_tokens=4)

    def spoilt(self, rollout: Any) -> Any:
        return rollout

    def generate(self, prompts: Any, n: int, sampling: Any = None) -> Any:
        return self.spoilt(super().generate(prompts, n, sampling))


def spoils(**of: Callable[[Any], Any]) -> dict[str, Any]:
    return {"spoilt": lambda self, rollout: replace(rollout, **{name: change(rollout) for name, change in of.items()})}


class AtLeastOne(Engine):
    """Broken on purpose."""

    def generate(self, prompts: Any, n: int, sampling: Any = None) -> Any:
        return super().generate(prompts or [Prompt(id="x", text="1=")], n, sampling)


all_ones = spoils(response_mask=lambda r: torch.ones_like(r.response_mask))
warmer = spoils(rollout_logprobs=lambda r: 0.5 * r.rollout_logprobs)
BROKEN = {
    "rows of a prompt are neighbours and share a group": wrong(Engine, **spoils(group=lambda r: r.group.flip(0))),
    "masks follow from lengths, and the response is what the policy sampled": wrong(Engine, **all_ones),
    "with exact_logprobs, its log-probs are those of the trainer": wrong(Engine, **warmer),
    "no prompts give no rows": AtLeastOne,
    "after a restart it continues in the same way": wrong(Engine, load_state_dict=lambda self, state: None),
}
