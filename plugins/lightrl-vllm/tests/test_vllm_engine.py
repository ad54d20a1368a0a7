"""The engine at work: rows with the trainer's log-probs, weights by folder and by adapters, several servers, whole runs."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from lightrl_vllm import VLLMEngine
from lightrl_workshop import quiet_trainer, rollouts_with
from lightrl_workshop.checks.continuations import answers, group, peaked_policy, request
from peft import LoraConfig

from lightrl import (
    Environment,
    GroupRelative,
    GroupSampler,
    PeftPolicy,
    Policy,
    PolicyOptimization,
    PretrainedPolicy,
    Prompt,
    PromptData,
    Reply,
    Reversal,
    TrainingBatch,
    own_opening,
)
from lightrl.policy.weights import TrainerWeights

PROMPTS = [Prompt(id=str(i), text=text) for i, text in enumerate(["12+3=", "4=", "98765="])]


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


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Any]:
    """Makes engines that are closed afterwards."""
    engines: list[VLLMEngine] = []

    def make(*addresses: str, **arguments: Any) -> VLLMEngine:
        engines.append(VLLMEngine(addresses=list(addresses), folder=str(tmp_path / "vllm"), max_new_tokens=8, **arguments))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


def expect_log_probs_of_the_trainer(policy: Policy, rollout: Any) -> None:
    with torch.no_grad():
        ours = policy(rollout.input_ids, rollout.response_mask, rollout.temperature).logprobs
    torch.testing.assert_close(rollout.rollout_logprobs, ours, atol=1e-4, rtol=0)


def test_rows_of_episodes_have_the_trainers_log_probs_and_read_only_what_is_new(server: Any, made: Any) -> None:
    policy = peaked_policy()
    policy.eos_token_ids = frozenset(range(1, 9))
    rollouts = rollouts_with(policy, made(server.address, temperature=0.7), Repeats(max_turns=3), version=5)
    rollout = rollouts.rollout(PROMPTS, 4)
    expect_log_probs_of_the_trainer(policy, rollout)
    assert max(episode.turns for episode in rollout.episodes) == 3
    assert set(rollout.policy_version.tolist()) == {5}


@pytest.mark.skipif(bool(os.environ.get("LIGHTRL_REAL_VLLM")), reason="the blocks of a real server have another size")
def test_tokens_that_the_server_had_read_are_not_counted(server: Any, made: Any) -> None:
    engine = made(server.address)
    engine.start()
    engine.update_weights(TrainerWeights(peaked_policy()), 1)
    long = request(0, [4 + t % 7 for t in range(50)])
    assert answers(engine, [long])[0].read == 50
    assert answers(engine, [long])[0].read == 50 - 48, "whole blocks of 16"


def test_weights_that_the_servers_have_are_not_sent_again(server: Any, made: Any) -> None:
    engine, policy = made(server.address), peaked_policy()
    engine.start()
    before, reloads = server.counts().get("/collective_rpc", 0), []
    for version in (1, 1, 2):
        engine.update_weights(TrainerWeights(policy), version)
        reloads.append(server.counts()["/collective_rpc"] - before)
    assert reloads == [1, 1, 2]


def test_two_servers_share_the_work_and_both_are_updated(server: Any, raw_server: Any, made: Any) -> None:
    policy, both = peaked_policy(), [server, raw_server]
    # at temperature 1 without filters raw and processed log-probs are the same
    engine = made(server.address, raw_server.address)
    rollouts = rollouts_with(policy, engine, version=1)
    with torch.no_grad():
        policy.model.get_input_embeddings().weight.mul_(1.5)
    before = [each.counts() for each in both]
    rollouts.update_weights(TrainerWeights(policy), 2)
    expect_log_probs_of_the_trainer(policy, rollouts.rollout(PROMPTS, 4))
    asked = [each.counts()["/inference/v1/generate"] - b["/inference/v1/generate"] for each, b in zip(both, before, strict=True)]
    # two groups of four here and one there, two rows each after the update, and four questions of the canary
    assert sorted(asked) == [4 + 2 + 2, 8 + 2 + 2]
    assert [each.counts()["/collective_rpc"] - b["/collective_rpc"] for each, b in zip(both, before, strict=True)] == [1, 1]


def test_adapters_alone_are_loaded_in_place(server: Any, made: Any, tmp_path: Path) -> None:
    base = PretrainedPolicy(server.ask("/v1/models")["data"][0]["root"])
    policy = PeftPolicy(base, lambda: LoraConfig(r=2, target_modules=["q_proj", "v_proj"])).build()
    engine = made(server.address, weights="adapters", temperature=0.7)
    before = server.counts()
    rollouts = rollouts_with(policy, engine, version=1)
    for version in (2, 3):
        with torch.no_grad():
            for parameter in policy.parameters():
                if parameter.requires_grad:
                    parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(version)))
        rollouts.update_weights(TrainerWeights(policy), version)
        rollout = rollouts.rollout(PROMPTS, 4)
        expect_log_probs_of_the_trainer(policy, rollout)
        assert set(rollout.policy_version.tolist()) == {version}
    after = server.counts()
    assert after["/v1/load_lora_adapter"] - before.get("/v1/load_lora_adapter", 0) == 3
    assert after.get("/collective_rpc", 0) == before.get("/collective_rpc", 0)
    (kept,) = [path for folder in (tmp_path / "vllm").iterdir() for path in folder.iterdir()]
    assert {path.suffix for path in kept.iterdir()} >= {".safetensors", ".json"}
    server.plant("stale")
    with torch.no_grad():
        next(p for p in policy.parameters() if p.requires_grad).mul_(3)
    with pytest.raises(RuntimeError, match="answers as it did with version 3"):
        rollouts.update_weights(TrainerWeights(policy), 4)


@pytest.mark.parametrize(
    ("sampling", "comparable"), [({"temperature": 0.7}, False), ({"top_k": 5}, True), ({}, True), ({"temperature": 0.7, "top_k": 5}, False)]
)
def test_log_probs_that_mean_something_else_are_said(
    sampling: dict[str, Any], comparable: bool, raw_server: Any, made: Any, caplog: pytest.LogCaptureFixture
) -> None:
    engine = made(raw_server.address, **sampling)
    engine.start()
    assert engine.comparable_logprobs is comparable
    said = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(said) == (not comparable)
    assert all("not divided by the temperature, over the whole vocabulary (raw_logprobs)" in sentence for sentence in said)
    # tokens are sampled as asked, whatever is said of them
    engine.update_weights(TrainerWeights(peaked_policy()), 1)
    assert len(answers(engine, group(engine.sampling))) == 5


def test_filters_with_processed_log_probs_are_said(server: Any, made: Any, caplog: pytest.LogCaptureFixture) -> None:
    engine = made(server.address, top_p=0.8)
    engine.start()
    assert not engine.comparable_logprobs
    assert "over the tokens that filters leave (processed_logprobs)" in caplog.text


def test_rows_that_a_server_would_cut_are_refused(server: Any, made: Any) -> None:
    engine = made(server.address)
    engine.start()
    engine.update_weights(TrainerWeights(peaked_policy()), 1)
    with pytest.raises(ValueError, match=r"request 0 has 500 tokens and may get 13 more, and .* takes rows of 512"):
        engine.submit([request(0, [5] * 500, 13)])


def test_it_trains_and_evaluates(server: Any, made: Any) -> None:
    deviations, staleness = list[float](), list[float]()

    class Watched(PolicyOptimization):
        def finish(self, batch: TrainingBatch, seconds: float) -> None:
            super().finish(batch, seconds)
            deviations.append(self.numbers["ratio/first_pass_deviation"])
            staleness.append(self.numbers["sampling/staleness"])

    module = Watched(
        policy=PretrainedPolicy(server.ask("/v1/models")["data"][0]["root"]),
        algorithm=GroupRelative(sampler=GroupSampler(group_size=4), minibatches=1, epochs=2),
        rewards={},
        engine=made(server.address, temperature=0.7),
        environment=Repeats(max_turns=3),
        prompts_per_rollout=4,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-2),
    )
    quiet_trainer(max_epochs=2).fit(module, datamodule=PromptData(train=Reversal(examples=100), validation_size=2))
    assert len(deviations) == 2
    assert max(deviations) < 1e-4
    assert staleness == [0.0, 0.0]
    assert server.ask("/weight_info")["weight_version"] == "4", "evaluated after the last of two times two steps"


WRONG = {
    "weights must be one of folder, adapters, got 'disk'": {"weights": "disk"},
    "each once": {"addresses": ["http://a:1", "http://a:1"]},
    "addresses must be like http://": {"addresses": ["a:1"]},
    "no user, password or query": {"addresses": ["http://me:word@a:1"]},
    "devices are for a server of the engine's own": {"addresses": ["http://a:1"], "devices": "0"},
    "needs model, the base of the adapters": {"weights": "adapters"},
    "retries >= 0": {"retries": -1},
    "never the key itself": {"api_key_env": "sk-very-secret"},
    "holds no key": {"api_key_env": "A_VARIABLE_THAT_IS_NOT_SET"},
}


@pytest.mark.parametrize("message", WRONG)
def test_arguments_that_cannot_be_used(message: str) -> None:
    with pytest.raises(ValueError, match=message) as found:
        VLLMEngine(**WRONG[message])
    assert "very-secret" not in str(found.value)
    assert "word" not in str(found.value).replace("password", "")
