import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from lightrl.parts.reward import Reward
from lightrl.rewards.reward_set import RewardSet
from lightrl.types import Prompt, Rollout

# workers import the modules of these tests by their names
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def reward_set() -> Iterator[Callable[[dict[str, Reward]], RewardSet]]:
    """Sets of rewards whose processes end with the test."""
    made: list[RewardSet] = []

    def make(rewards: dict[str, Reward]) -> RewardSet:
        made.append(RewardSet(rewards))
        return made[-1]

    yield make
    for rewards in made:
        rewards.close()


@pytest.fixture
def texts() -> Callable[..., Rollout]:
    """A rollout that says these things, one prompt per group."""

    def make(completions: list[str], group: list[int] | None = None, length: int = 2, **columns: Any) -> Rollout:
        n = len(completions)
        groups = torch.arange(n) if group is None else torch.tensor(group)
        positions = torch.arange(length + 1)
        return Rollout(
            prompts=[Prompt(id=f"p{g}", text="?", answer=0.25, columns=columns) for g in groups.tolist()],
            completions=completions,
            input_ids=torch.zeros(n, length + 1, dtype=torch.long),
            attention_mask=torch.ones(n, length + 1, dtype=torch.bool),
            response_mask=(positions >= 1).expand(n, -1).clone(),
            rollout_logprobs=torch.zeros(n, length + 1),
            group=groups,
            finish_reason=["stop"] * n,
            policy_version=torch.zeros(n, dtype=torch.long),
            temperature=1.0,
        )

    return make
