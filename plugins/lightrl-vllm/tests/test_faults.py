"""Faults of a server: each is named when it is connected, at the update, or within one rollout."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from lightrl_vllm import VLLMEngine
from lightrl_workshop import rollouts_with
from lightrl_workshop.checks.continuations import peaked_policy

from lightrl import Policy, Prompt, TinyPolicy
from lightrl.policy.weights import TrainerWeights
from lightrl.rollout.loop import RolloutLoop

PROMPTS = [Prompt(id=str(i), text=text) for i, text in enumerate(["12+3=", "4=", "98765="])]


@pytest.fixture
def policy() -> Policy:
    """Ends often, so that stop_token_ids matter."""
    made = peaked_policy()
    made.eos_token_ids = frozenset(range(1, 9))
    return made


@pytest.fixture(scope="module")
def engine_at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., VLLMEngine]]:
    """One engine for each set of arguments, at work for all tests."""
    made: dict[str, VLLMEngine] = {}
    folder = str(tmp_path_factory.mktemp("weights"))

    def at(*addresses: str, **arguments: Any) -> VLLMEngine:
        key = f"{addresses} {arguments}"
        if key not in made:
            made[key] = VLLMEngine(**{"addresses": list(addresses), "folder": folder, "retries": 1, "timeout_s": 60.0, **arguments})
        return made[key]

    yield at
    for engine in made.values():
        engine.close()


@torch.no_grad()
def move(policy: Policy) -> None:
    for parameter in policy.parameters():
        parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)))


def rollouts(policy: Policy, engine: VLLMEngine, version: int) -> RolloutLoop:
    return rollouts_with(policy, engine, version=version)


IN_A_ROLLOUT = {
    "status 500": "status 500: EngineCore encountered an issue",
    "status 503": "status 503",
    "abort": "finish_reason is 'abort', so the .* tokens are no completion",
    "no log-probs": "0 log-probs for",
    "another token": r"log-prob \d+ is of token \d+, and token",
    "not finite": "is -9999.0: the weights are not finite",
    "wrong version": "sampled with weights of version -3, and the last update was to 4",
    "ignores stop_token_ids": "goes on behind one of stop_token_ids|'length' although the completion has ended",
}


@pytest.mark.parametrize("fault", IN_A_ROLLOUT)
def test_a_fault_in_a_rollout_ends_it_with_its_name(fault: str, server: Any, policy: Policy, engine_at: Any) -> None:
    loop = rollouts(policy, engine_at(server.address, temperature=0.7, max_new_tokens=12), 4)
    server.plant(fault)
    with pytest.raises(RuntimeError, match=IN_A_ROLLOUT[fault]) as found:
        loop.rollout(PROMPTS, 4)
    assert server.address in str(found.value)
    server.plant()
    assert len(loop.rollout(PROMPTS, 4)) == 12, "the next rollout is as if nothing had been"


AT_AN_UPDATE = {
    "stale": "answers as it did with version 4, so the weights have not arrived",
    "one token off": "the trainer one token off",
    "raw log-probs": "are those at temperature 1; start it with --logprobs-mode processed_logprobs",
    "colder log-probs": "the weights are right and the log-probs are not of logits / temperature",
    "wrong version": "weights of version -3, and the last update was to 5",
    "reload fails": "The weights were not taken: treat the server as dead",
    "no log-probs": "0 log-probs for 32 tokens",
}


@pytest.mark.parametrize("fault", AT_AN_UPDATE)
def test_a_fault_at_an_update_ends_the_run_with_its_name(fault: str, server: Any, policy: Policy, engine_at: Any) -> None:
    engine = engine_at(server.address, temperature=0.7, max_new_tokens=12)
    engine.start()
    engine.update_weights(TrainerWeights(policy), 4)
    move(policy)
    server.plant(fault)
    with pytest.raises(RuntimeError, match=AT_AN_UPDATE[fault]) as found:
        engine.update_weights(TrainerWeights(policy), 5)
    assert server.address in str(found.value)
    server.plant()
    engine.update_weights(TrainerWeights(policy), 6)


WHEN_CONNECTED = {
    "ignores temperature": "temperature has no effect: at 2 and at 0.1",
    "ignores seed": "seed has no effect",
    "ignores top_k": "top_k has no effect",
    "ignores top_p": "top_p has no effect",
    "ignores min_p": "min_p has no effect",
    "ignores stop_token_ids": "stop_token_ids",
    "ignores max_tokens": "max_tokens has no effect",
    "no log-probs": "0 log-probs for 8 tokens",
    "without /inference/v1/generate": "Start it with --enable-scale-out",
    "without /weight_info": "start it with VLLM_SERVER_DEV_MODE=1",
}


@pytest.mark.parametrize("fault", WHEN_CONNECTED)
def test_a_field_without_effect_is_found_when_the_server_is_connected(fault: str, server: Any, tmp_path: Path) -> None:
    server.plant(fault)
    engine = VLLMEngine(addresses=[server.address], folder=str(tmp_path), retries=0)
    try:
        with pytest.raises(RuntimeError, match=WHEN_CONNECTED[fault]) as found:
            engine.start()
        assert server.address in str(found.value)
    finally:
        engine.close()


def test_a_server_that_is_paused_or_not_there_is_named(server: Any, tmp_path: Path) -> None:
    server.ask("/pause?mode=wait", {})
    engine = VLLMEngine(addresses=[server.address], folder=str(tmp_path))
    with pytest.raises(RuntimeError, match=f"somebody has paused it: curl -X POST {server.address}/resume"):
        engine.start()
    engine.close()
    nobody = VLLMEngine(addresses=["http://127.0.0.1:9"], folder=str(tmp_path), retries=0)
    with pytest.raises(RuntimeError, match=r"http://127\.0\.0\.1:9/v1/models: no answer: ConnectError"):
        nobody.start()
    nobody.close()


def test_a_server_that_hangs_ends_the_rollout_within_the_limit(server: Any, policy: Policy, engine_at: Any) -> None:
    loop = rollouts(policy, engine_at(server.address, timeout_s=6.0), 4)
    server.plant("hang")
    started = time.monotonic()
    with pytest.raises(RuntimeError, match="no answer within 6 s: it hangs, or timeout_s is too short"):
        loop.rollout(PROMPTS, 4)
    assert time.monotonic() - started < 30


def test_weights_that_a_server_could_not_read_are_refused_before_it_is_asked(server: Any, policy: Policy, engine_at: Any) -> None:
    engine = engine_at(server.address, temperature=0.7, max_new_tokens=12)
    engine.start()
    engine.update_weights(TrainerWeights(policy), 4)
    before = server.counts()["/collective_rpc"]
    with pytest.raises(ValueError, match=r"do not fit those of the first update.*\n.*\n  hidden_size is 32, was 16"):
        engine.update_weights(TrainerWeights(TinyPolicy(hidden=32, layers=1, heads=2).build()), 5)
    assert server.counts()["/collective_rpc"] == before
    engine.update_weights(TrainerWeights(policy), 6)


def test_weights_of_another_model_than_the_server_began_with_are_refused(server: Any, tmp_path: Path) -> None:
    engine = VLLMEngine(addresses=[server.address], folder=str(tmp_path))
    engine.start()
    try:
        with pytest.raises(ValueError, match=rf"do not fit {server.address}: its model .*\n.*num_hidden_layers"):
            engine.update_weights(TrainerWeights(TinyPolicy(hidden=16, layers=2, heads=2).build()), 0)
        assert not server.ask("/is_paused")["is_paused"]
    finally:
        engine.close()
