"""Runs of GRPO with guests: rows only grow, ratios are 1 on the first pass over all turns, failures leave the loss."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lightrl_guests import TRLEnvironment
from lightrl_workshop import quiet_trainer
from word_policy import word_policy

from lightrl import (
    EpisodeSeeds,
    GroupCentered,
    GroupRelative,
    GroupSampler,
    LoadedPolicy,
    PolicyOptimization,
    PromptData,
    TransformersEngine,
)
from lightrl.types import ScoredRollout

LARGEST = 90
CALLS = [f"[guess({number})]" for number in range(1, LARGEST + 1)]
CHARACTERS = "Guess a number from 1 to 90. higher lower right;"


class Kept(PolicyOptimization):
    """Keeps its rollouts."""

    def rollout_phase(self) -> ScoredRollout:
        self.kept = super().rollout_phase()
        return self.kept


def trained(path: str, rollouts: int = 1, **arguments: Any) -> Kept:
    module = Kept(
        policy=LoadedPolicy(*word_policy(CALLS, CHARACTERS)),
        algorithm=GroupRelative(sampler=GroupSampler(group_size=4), advantage=GroupCentered(), epochs=1, minibatches=1),
        rewards={},
        environment=TRLEnvironment(path, call_format="python", response=" {result};", chat=False, **arguments),
        engine=TransformersEngine(max_new_tokens=2, stop=[")]"]),
        prompts_per_rollout=4,
        seed=3,
    )
    quiet_trainer(max_epochs=rollouts).fit(module, datamodule=PromptData(train=EpisodeSeeds(size=64)))
    return module


def test_rows_only_grow_and_every_turn_has_the_ratio_1_on_the_first_pass() -> None:
    module = trained("planted_guests.Last", max_turns=4)
    rows = module.kept
    assert max(episode.turns for episode in rows.episodes) == 4
    assert module.numbers["ratio/first_pass_deviation"] < 1e-4
    for row, episode in enumerate(rows.episodes):
        text = module.policy.tokenizer.decode(rows.input_ids[row][rows.attention_mask[row]], skip_special_tokens=True)
        # what closes an episode is read by nobody
        said = "".join(str(message["content"]) for message in episode.messages[: episode.own[-1] + 1])
        assert text == said
        own = module.policy.tokenizer.decode(rows.input_ids[row][rows.response_mask[row]], skip_special_tokens=True)
        assert own == "".join(str(episode.messages[place]["content"]) for place in episode.own)


@pytest.mark.thorough
def test_a_run_repeats() -> None:
    first, second = (trained("planted_guests.Last").kept for _ in range(2))
    assert [episode.messages for episode in first.episodes] == [episode.messages for episode in second.episodes]
    torch.testing.assert_close(first.reward_parts, second.reward_parts, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", ["NaNFromForty", "RaisesBelowForty"])
def test_episodes_whose_class_fails_leave_the_loss_and_the_run_goes_on(name: str) -> None:
    rows = trained(f"planted_guests.{name}", rollouts=2, max_turns=2, max_error_rate=1.0).kept
    failed = torch.tensor([episode.failure is not None for episode in rows.episodes])
    assert 0 < int(failed.sum()) < len(failed)
    assert not bool(rows.scorable[failed].any())
    assert bool(rows.scorable[~failed].all())


def test_a_class_that_always_fails_ends_the_run_with_its_reason() -> None:
    with pytest.raises(RuntimeError, match="no such board"):
        trained("planted_guests.Unbuilt", error_window=4)
