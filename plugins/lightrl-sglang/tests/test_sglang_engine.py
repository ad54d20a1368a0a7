"""The engine at work: rows with the trainer's log-probs, ends of its model, weights by folder and by adapters, whole runs."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from lightrl_sglang import SGLangEngine
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
    Sampling,
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
    engines: list[SGLangEngine] = []

    def make(*addresses: str, **arguments: Any) -> SGLangEngine:
        engines.append(SGLangEngine(**{"addresses": list(addresses), "folder": str(tmp_path / "sglang"), "max_new_tokens": 8, **arguments}))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


def expect_log_probs_of_the_trainer(policy: Policy, rollout: Any) -> None:
    with torch.no_grad():
        ours = policy(rollout.input_ids, rollout.response_mask, rollout.temperature).logprobs
    torch.testing.assert_close(rollout.rollout_logprobs, ours, atol=1e-4, rtol=0)


def test_rows_of_episodes_have_the_trainers_log_probs(server: Any, made: Any) -> None:
    policy = peaked_policy()
    policy.eos_token_ids = frozenset(range(1, 9))
    rollouts = rollouts_with(policy, made(server.address, temperature=0.7), Repeats(max_turns=3), version=5)
    rollout = rollouts.rollout(PROMPTS, 4)
    expect_log_probs_of_the_trainer(policy, rollout)
    assert max(episode.turns for episode in rollout.episodes) == 3
    assert set(rollout.policy_version.tolist()) == {5}


@pytest.mark.thorough
@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.0}, {"temperature": 0.7, "top_k": 5}])
def test_an_end_of_the_model_that_ends_no_completion_changes_nothing(
    sampling: dict[str, Any], server: Any, start_server: Any, made: Any
) -> None:
    """A server ends at every EOS of its model; the same tokens come as from one that has no such ends."""
    asked = group(Sampling(**sampling), limit=24, ends=frozenset({9}))
    found = []
    for address in (server.address, start_server("--eos", *map(str, range(2, 9))).address):
        engine = made(address, **sampling)
        engine.start()
        engine.update_weights(TrainerWeights(peaked_policy()), 1)
        found.append(answers(engine, asked))
    for one in asked:
        plain, ended = (results[one.id] for results in found)
        assert ended.tokens == plain.tokens
        assert ended.finish_reason == plain.finish_reason
        assert ended.versions == plain.versions
        torch.testing.assert_close(ended.logprobs, plain.logprobs, atol=1e-5, rtol=0)
    assert any(set(result.tokens[:-1]) & set(range(2, 9)) for result in found[0].values()), "some go on behind such an end"


@pytest.mark.thorough
def test_an_end_of_the_model_as_the_last_token_that_was_allowed_is_a_cut(start_server: Any, made: Any) -> None:
    engine = made(start_server("--eos", *map(str, range(2, 30))).address, temperature=0.0)
    engine.start()
    engine.update_weights(TrainerWeights(peaked_policy()), 1)
    results = answers(engine, [request(i, limit=1 + i) for i in range(3)])
    assert [(len(results[i].tokens), results[i].finish_reason) for i in range(3)] == [(1, "length"), (2, "length"), (3, "length")]


@pytest.mark.skipif("LIGHTRL_REAL_SGLANG" in os.environ, reason="the pages of a real server may have another size")
def test_tokens_that_the_server_had_read_are_not_counted(server: Any, made: Any) -> None:
    engine = made(server.address)
    engine.start()
    engine.update_weights(TrainerWeights(peaked_policy()), 1)
    long = request(0, [4 + t % 7 for t in range(50)])
    assert answers(engine, [long])[0].read == 50
    assert answers(engine, [long])[0].read == 1


@pytest.mark.thorough
def test_two_servers_share_the_work_and_both_are_updated(server: Any, start_server: Any, made: Any) -> None:
    policy, both = peaked_policy(), [server, start_server()]
    engine = made(*(each.address for each in both), temperature=0.7)
    rollouts = rollouts_with(policy, engine, version=1)
    with torch.no_grad():
        policy.model.get_input_embeddings().weight.mul_(1.5)
    before = [each.counts() for each in both]
    rollouts.update_weights(TrainerWeights(policy), 2)
    rollouts.update_weights(TrainerWeights(policy), 2)
    expect_log_probs_of_the_trainer(policy, rollouts.rollout(PROMPTS, 4))
    updates = [each.counts()["/update_weights_from_disk"] - b["/update_weights_from_disk"] for each, b in zip(both, before, strict=True)]
    assert updates == [1, 1], "weights that the servers have are not sent again"
    assert all(each.counts()["/generate"] > b["/generate"] + 4 for each, b in zip(both, before, strict=True))


def test_adapters_alone_are_loaded_under_one_name(server: Any, made: Any, tmp_path: Path) -> None:
    base = peaked_policy()
    base.save(tmp_path / "base")
    restored = made(server.address)
    restored.start()
    restored.update_weights(TrainerWeights(base), 1)
    policy = PeftPolicy(PretrainedPolicy(str(tmp_path / "base")), lambda: LoraConfig(r=2, target_modules=["q_proj", "v_proj"])).build()
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
    assert after["/load_lora_adapter"] - before.get("/load_lora_adapter", 0) == 3
    assert after["/update_weights_from_disk"] - before["/update_weights_from_disk"] == 1, "asked once whether it is there"
    server.plant("stale")
    with torch.no_grad():
        next(p for p in policy.parameters() if p.requires_grad).mul_(3)
    with pytest.raises(RuntimeError, match="answers as it did with version 3"):
        rollouts.update_weights(TrainerWeights(policy), 4)


def test_filters_leave_log_probs_those_of_the_whole_vocabulary(server: Any, made: Any, caplog: pytest.LogCaptureFixture) -> None:
    engine = made(server.address, temperature=0.7, top_p=0.8, top_k=5, min_p=0.01)
    policy = peaked_policy()
    rollouts = rollouts_with(policy, engine, version=1)
    assert engine.comparable_logprobs
    expect_log_probs_of_the_trainer(policy, rollouts.rollout(PROMPTS, 4))
    assert not [record for record in caplog.records if record.levelno == logging.WARNING]


def test_original_log_probs_are_found_out_and_said(start_server: Any, made: Any, caplog: pytest.LogCaptureFixture) -> None:
    engine = made(start_server("--original-logprobs").address, temperature=0.7)
    engine.start()
    assert not engine.comparable_logprobs
    assert "not divided by the temperature, over the whole vocabulary (SGLANG_RETURN_ORIGINAL_LOGPROB)" in caplog.text
    assert "Start it without SGLANG_RETURN_ORIGINAL_LOGPROB in its environment" in caplog.text
    # tokens are sampled as asked, whatever is said of them
    engine.update_weights(TrainerWeights(peaked_policy()), 1)
    assert len(answers(engine, group(engine.sampling))) == 5


def test_rows_that_a_server_would_cut_are_refused(server: Any, made: Any) -> None:
    engine = made(server.address)
    engine.start()
    engine.update_weights(TrainerWeights(peaked_policy()), 1)
    with pytest.raises(ValueError, match=r"request 0 has 500 tokens and may get 13 more, and .* takes rows of 506.*--context-length"):
        engine.submit([request(0, [5] * 500, 13)])


def test_five_rollouts_of_grpo(server: Any, made: Any, tmp_path: Path) -> None:
    """GRPO without KL, in episodes of several turns: ratios begin at 1, and each rollout is of the weights of its step."""
    seen: dict[str, list[float]] = {"ratio/first_pass_deviation": [], "sampling/staleness": [], "reward": []}

    class Watched(PolicyOptimization):
        def finish(self, batch: TrainingBatch, seconds: float) -> None:
            super().finish(batch, seconds)
            for name, values in seen.items():
                values.append(self.numbers.get(name, 0.0))

    peaked_policy().save(tmp_path / "policy")
    module = Watched(
        policy=PretrainedPolicy(str(tmp_path / "policy")),
        algorithm=GroupRelative(sampler=GroupSampler(group_size=4), minibatches=1, epochs=2),
        rewards={},
        engine=made(server.address, temperature=0.7),
        environment=Repeats(max_turns=3),
        prompts_per_rollout=4,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-2),
    )
    quiet_trainer(max_epochs=5).fit(module, datamodule=PromptData(train=Reversal(examples=100), validation_size=2))
    assert len(seen["ratio/first_pass_deviation"]) == 5
    assert max(seen["ratio/first_pass_deviation"]) < 1e-4
    assert seen["sampling/staleness"] == [0.0] * 5
    assert server.ask("/model_info")["weight_version"] == "10", "evaluated after the last of five times two steps"


WRONG = {
    "weights must be one of folder, adapters, got 'disk'": {"weights": "disk"},
    "each once": {"addresses": ["http://a:1", "http://a:1"]},
    "no user, password or query": {"addresses": ["http://me:word@a:1"]},
    "devices are for a server of the engine's own": {"addresses": ["http://a:1"], "devices": "0"},
    "needs model, the base of the adapters": {"weights": "adapters"},
    "never the key itself": {"addresses": ["http://a:1"], "api_key_env": "sk-very-secret"},
    "sglang serve takes a key from its command line alone": {"api_key_env": "MY_KEY"},
}


@pytest.mark.parametrize("message", WRONG)
def test_arguments_that_cannot_be_used(message: str) -> None:
    with pytest.raises(ValueError, match=message) as found:
        SGLangEngine(**WRONG[message])
    assert "very-secret" not in str(found.value)
