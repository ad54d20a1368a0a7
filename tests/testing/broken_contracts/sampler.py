"""One class for each check of the contract of samplers, which breaks that check."""

from __future__ import annotations

from typing import Any

from lightrl import GroupSampler, Prompt

KIND = "sampler"


class Uneven(GroupSampler):
    """Broken on purpose: a row is lost."""

    def collect(self, collection: Any) -> Any:
        scored = super().collect(collection)
        return scored.select(range(len(scored) - 1))


class Alone(GroupSampler):
    """Broken on purpose: a rank that has what it wants stops calling."""

    def collect(self, collection: Any) -> Any:
        scored = super().collect(collection)
        while scored.reward_parts["score"].min() == 1:
            scored = super().collect(collection)
        return scored


class Hoarder(GroupSampler):
    """Broken on purpose: its backlog is no JSON value."""

    def state_dict(self) -> dict[str, Any]:
        return {"backlog": [Prompt(id="a", text="a")]}


class Fussy(GroupSampler):
    """Broken on purpose: it cannot work without a signal."""

    def collect(self, collection: Any) -> Any:
        scored = super().collect(collection)
        if (scored.reward_parts["score"][:2] == 1).all():
            raise RuntimeError("the first group has no signal")
        return scored


BROKEN = {
    "it returns whole groups of one prompt, as many as asked for": Uneven,
    "groups with zero variance do not break it": Fussy,
    "every rank calls draw, rollout, score and total equally often": Alone,
    "its backlog survives a restart": Hoarder,
}
