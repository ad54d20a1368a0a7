"""One class for each check of the contract of references, which breaks that check."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from broken_contracts.wrong import wrong

from lightrl import FrozenReference, PeriodicReference

KIND = "reference"


class Doubled(torch.nn.Module):
    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, *given: Any) -> Any:
        output = self.policy(*given)
        return replace(output, logprobs=2 * output.logprobs)


class Follower(FrozenReference):
    """Broken on purpose: it is the policy itself."""

    def build(self, policy: Any) -> None:
        self._anchor = policy


class Forgetful(PeriodicReference):
    """Broken on purpose: where it moved to is lost."""

    def __init__(self) -> None:
        super().__init__(every=1)

    def state_dict(self) -> dict[str, Any]:
        return {}


class Cold(FrozenReference):
    """Broken on purpose: the temperature is lost."""

    def logprobs(self, policy: Any, input_ids: Any, mask: Any, temperature: float = 1.0) -> Any:
        return super().logprobs(policy, input_ids, mask)


def double(self: Any, policy: Any) -> None:
    self._anchor = Doubled(policy)


BROKEN = {
    "before the first step it is the policy, or one of its own if it says so": wrong(FrozenReference, build=double),
    "the log-probs are those of the selected tokens alone, at their temperature": Cold,
    "it stays as it is while the policy changes": Follower,
    "its history survives a restart": Forgetful,
}
