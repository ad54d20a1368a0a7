"""An engine that is not ours passes the contract, but for what it states, and trains a policy over several turns."""

from __future__ import annotations

import dataclasses
import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from lightrl_workshop import contract_tests, quiet_trainer, rollouts_with
from lightrl_workshop.checks.continuations import peaked_policy

from lightrl import (
    Environment,
    GroupRelative,
    GroupSampler,
    PolicyOptimization,
    Prompt,
    PromptData,
    Reply,
    Reversal,
    TinyPolicy,
    TrainingBatch,
    own_opening,
)
from lightrl.callbacks.run_start import StatedExceptions

sys.path.insert(0, str(Path(__file__).parent))
from continuous_batching import ADDED, ContinuousBatchingEngine, settings, stop

PROMPTS = [Prompt(id=str(i), text=text) for i, text in enumerate(["12+3=", "4=", "98765="])]


@pytest.fixture(scope="module", autouse=True)
def _quick_collection() -> Iterator[None]:
    # transformers collects garbage whenever it stops, and all that was imported would be gone through
    gc.freeze()
    yield
    gc.unfreeze()


# half a second for each check, most of it the start of the engine
test_contract = pytest.mark.thorough(contract_tests("continuous_batching"))


class Repeats(Environment):
    """Says the length of the last turn, and rewards short ones."""

    runs = "inline"
    gives_rewards = True

    def begin(self, prompt: Prompt, seed: int) -> str:
        self.turn = 0
        return str(own_opening(prompt))

    def reply(self, completion: str) -> Reply:
        self.turn += 1
        return Reply(f"?{len(completion)}=", reward=1.0 / (1 + len(completion)), done=self.turn == 3)


@pytest.mark.parametrize("temperature", [1.0, 0.7, 0.0])
def test_log_probs_of_episodes_are_those_of_a_teacher_forced_forward(temperature: float) -> None:
    policy = peaked_policy()
    policy.eos_token_ids = frozenset(range(1, 9))
    rollouts = rollouts_with(policy, ContinuousBatchingEngine(12, temperature), Repeats(max_turns=3), version=5)
    try:
        rollout = rollouts.rollout(PROMPTS, 4)
    finally:
        rollouts.close()
    with torch.no_grad():
        ours = policy(rollout.input_ids, rollout.response_mask, rollout.temperature).logprobs
    torch.testing.assert_close(rollout.rollout_logprobs, ours, atol=1e-5, rtol=0)
    assert max(episode.turns for episode in rollout.episodes) == 3
    assert set(rollout.policy_version.tolist()) == {5}


def test_it_trains_with_a_first_ratio_of_1_and_says_its_exceptions(capfd: pytest.CaptureFixture[str]) -> None:
    deviations, turns = list[float](), list[int]()

    class Watched(PolicyOptimization):
        def finish(self, batch: TrainingBatch, seconds: float) -> None:
            super().finish(batch, seconds)
            turns.append(max(episode.turns for episode in batch.episodes))
            deviations.append(self.numbers["ratio/first_pass_deviation"])

    policy = TinyPolicy(hidden=16, layers=1, heads=2)
    module = Watched(
        policy=policy,
        algorithm=GroupRelative(sampler=GroupSampler(group_size=4), minibatches=1, epochs=2),
        rewards={},
        engine=ContinuousBatchingEngine(12),
        environment=Repeats(max_turns=3),
        prompts_per_rollout=4,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-2),
    )
    quiet_trainer(max_epochs=2, callbacks=[StatedExceptions()]).fit(module, datamodule=PromptData(train=Reversal(examples=100)))
    assert len(deviations) == 2
    assert max(deviations) < 1e-4
    assert min(turns) > 1
    # with stale weights the second rollout would have shown it
    before, after = (torch.nn.utils.parameters_to_vector(p.parameters()).detach() for p in (policy.build(), module.policy))
    assert float((after - before).abs().max()) > 1e-2
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("ContinuousBatchingEngine does not keep")]
    assert len(said) == 3
    assert any("'the random numbers of a request are its own': continuous batching has one seed" in line for line in said)


@pytest.mark.parametrize(
    ("size", "added"),
    [
        ("block_size", []),
        ("block_size", ["seed"]),
        ("block_size", ["seed", "max_requests_per_batch"]),
        ("page_size", ["seed", "max_requests_per_batch"]),
        ("page_size", sorted(ADDED)),
    ],
    ids=["5.6", "5.9", "5.11", "5.18", "5.19"],
)
def test_settings_are_those_that_a_version_of_transformers_has(size: str, added: list[str]) -> None:
    wanted = {"page_size": 16, "return_logprobs": True, **dict.fromkeys(ADDED, 1)}
    made = settings(dataclasses.make_dataclass("Settings", [size, "return_logprobs", *added]), **wanted)
    assert dataclasses.asdict(made) == {size: 16, "return_logprobs": True, **dict.fromkeys(added, 1)}


def test_a_version_without_log_probs_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="has no return_logprobs"):
        settings(dataclasses.make_dataclass("Settings", ["block_size"]), page_size=16, return_logprobs=True)


def test_a_manager_is_stopped_under_both_forms() -> None:
    said: list[object] = []

    class Before:
        def stop(self, block: bool = True, timeout: float | None = None) -> None:
            said.append(block)

    class Since(Before):
        def stop(self, block: bool = True, timeout: float | None = None, hard_stop: bool = False) -> None:
            said.append((block, hard_stop))

        def destroy(self) -> None:
            said.append("destroyed")

    managers: list[Any] = [Before(), Since()]
    for manager in managers:
        stop(manager)
    assert said == [True, (True, True), "destroyed"]
