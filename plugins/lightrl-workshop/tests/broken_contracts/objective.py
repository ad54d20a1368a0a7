"""One class for each check of the contract of objectives, which breaks that check."""

from __future__ import annotations

from typing import Any

import torch
from broken_contracts.wrong import wrong

from lightrl import ChosenLikelihood, LabelledObjective

KIND = "objective"


class First(LabelledObjective):
    """Broken on purpose: its preparation is of the first row alone."""

    needs_mismatched = True

    def from_mismatched(self, mismatched: Any) -> dict[str, Any]:
        return {"first": mismatched.logprob[0]}

    def reward(self, completions: Any) -> Any:
        return completions.logprob

    def loss(self, completions: Any, good: Any) -> Any:
        return torch.where(good, -1, 1) * completions.logprob


by_place = {"loss": lambda self, chosen, rejected: -chosen.logprob * (1 + torch.arange(len(chosen.logprob)))}
undeclared = {"reward": lambda self, completions: completions.log_ratio}
reverse = {"loss": lambda self, chosen, rejected: chosen.logprob}
BROKEN = {
    "each row gets a finite loss and a reward, computed from what it needs": wrong(ChosenLikelihood, **undeclared),
    "rows have no influence on each other": wrong(ChosenLikelihood, **by_place),
    "where the policy is the reference, it makes good completions likelier and no bad one": wrong(ChosenLikelihood, **reverse),
    "its preparation does not depend on the order of rows": First,
}
