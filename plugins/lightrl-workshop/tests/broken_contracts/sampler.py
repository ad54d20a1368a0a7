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


class Silent(GroupSampler):
    """Broken on purpose: it does not say that its rows are given."""

    group_size = 1

    def collect(self, collection: Any) -> Any:
        prompts = collection.draw(collection.prompts)
        return collection.score(collection.given(prompts, [str(prompt.answer) for prompt in prompts]))


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


class Favourite(GroupSampler):
    """Broken on purpose: every rank asks for the same prompt again."""

    def collect(self, collection: Any) -> Any:
        return collection.rollout_and_score([collection.prompt(f"0-{number}") for number in range(collection.prompts)], self.group_size)


class Partial(GroupSampler):
    """Broken on purpose: it remembers the prompts of its own rank."""

    def __init__(self, group_size: int = 2) -> None:
        """
        Args:
            group_size: completions per prompt.
        """
        super().__init__(group_size)
        self._seen: list[str] = []

    def commit(self, learnt: Any, ranks: Any) -> None:
        self._seen = sorted({prompt.id for prompt in learnt.prompts})

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self._seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._seen = state["seen"]


class Fussy(GroupSampler):
    """Broken on purpose: it cannot work without a signal."""

    def collect(self, collection: Any) -> Any:
        scored = super().collect(collection)
        if (scored.reward_parts["score"][:2] == 1).all():
            raise RuntimeError("the first group has no signal")
        return scored


BROKEN = {
    "it returns whole groups of one prompt, as many as asked for": Uneven,
    "it says whether the policy has sampled all of its rows": Silent,
    "groups with zero variance do not break it": Fussy,
    "every rank calls draw, rollout, score, total and gather equally often": Alone,
    "no prompt is completed on two ranks at once": Favourite,
    "what it remembers is the same on every rank": Partial,
    "what it remembers survives a restart": Hoarder,
}
