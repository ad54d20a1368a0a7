"""A run of GRPO on a task set of verifiers: rows only grow, and ratios are 1 on the first pass over all turns."""

from __future__ import annotations

import pytest
import torch
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

pytest.importorskip("verifiers")

from lightrl_guests import VerifiersEnvironment

WORDS = [f"word{number}" for number in range(4)]
CHARACTERS = "assistantusersystem:;Be brief. Say word. again 0123456789"
TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}:{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}<eos>{% endif %};{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"
)


class Kept(PolicyOptimization):
    """Keeps its rollouts."""

    def rollout_phase(self) -> ScoredRollout:
        self.kept = super().rollout_phase()
        return self.kept


@pytest.mark.thorough
def test_rows_only_grow_and_every_turn_has_the_ratio_1_on_the_first_pass() -> None:
    model, tokenizer = word_policy(WORDS, CHARACTERS)
    tokenizer.chat_template = TEMPLATE
    module = Kept(
        policy=LoadedPolicy(model, tokenizer),
        algorithm=GroupRelative(sampler=GroupSampler(group_size=4), advantage=GroupCentered(), epochs=1, minibatches=1),
        rewards={},
        environment=VerifiersEnvironment("planted_verifiers", {"taskset": {"fault": "graded"}}, timeout_s=60.0, workers=1),
        engine=TransformersEngine(max_new_tokens=1, stop=[*WORDS, *sorted({*CHARACTERS})]),
        prompts_per_rollout=4,
        seed=3,
    )
    quiet_trainer(max_epochs=1).fit(module, datamodule=PromptData(train=EpisodeSeeds(size=4)))
    rows = module.kept
    assert max(episode.turns for episode in rows.episodes) == 2
    assert module.numbers["ratio/first_pass_deviation"] < 1e-4
    for row, episode in enumerate(rows.episodes):
        own = module.policy.tokenizer.decode(rows.input_ids[row][rows.response_mask[row]], skip_special_tokens=True)
        assert own == "".join(str(episode.messages[place]["content"]) for place in episode.own)
    scored = torch.tensor([episode.failure is None and episode.turns == 2 for episode in rows.episodes])
    assert bool(rows.scorable[scored].all())
