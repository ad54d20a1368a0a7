"""Faults of a server: each is named when it is connected, at the update, or within one rollout."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from lightrl_sglang import SGLangEngine
from lightrl_workshop import rollouts_with
from lightrl_workshop.checks.continuations import peaked_policy

from lightrl import Policy, Prompt, TinyPolicy
from lightrl.policy.weights import TrainerWeights

PROMPTS = [Prompt(id=str(i), text=text) for i, text in enumerate(["12+3=", "4=", "98765="])]


@pytest.fixture
def policy() -> Policy:
    """Ends often, so that stop_token_ids matter."""
    made = peaked_policy()
    made.eos_token_ids = frozenset(range(1, 9))
    return made


@pytest.fixture(scope="module")
def engine_at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., SGLangEngine]]:
    """One engine for each set of arguments, at work for all tests."""
    made: dict[str, SGLangEngine] = {}
    folder = str(tmp_path_factory.mktemp("weights"))

    def at(*addresses: str, **arguments: Any) -> SGLangEngine:
        key = f"{addresses} {arguments}"
        if key not in made:
            made[key] = SGLangEngine(**{"addresses": list(addresses), "folder": folder, "retries": 1, "timeout_s": 60.0, **arguments})
        return made[key]

    yield at
    for engine in made.values():
        engine.close()


@torch.no_grad()
def move(policy: Policy) -> None:
    for parameter in policy.parameters():
        parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)))


IN_A_ROLLOUT = {
    "status 500": "status 500: EngineCore encountered an issue",
    "status 503": "status 503",
    "abort": "finish_reason is 'abort', so the .* tokens are no completion: somebody has aborted or paused",
    "no log-probs": "0 log-probs for",
    "another token": r"log-prob \d+ is of token \d+, and token",
    "null log-prob": r"the log-prob of token \d+ is None: the weights are not finite",
    "not finite": r"the log-prob of token \d+ is -3.4e\+38: the weights are not finite",
    "NaN happened": "it ended by 'NaN happened', which is no stop string of the request: the weights are not finite",
    "wrong version": "sampled with weights of version -3, and the last update was to 4",
    "ignores stop_token_ids": "goes on behind one of stop_token_ids|'length' although the completion has ended",
}


@pytest.mark.parametrize("fault", IN_A_ROLLOUT)
def test_a_fault_in_a_rollout_ends_it_with_its_name(fault: str, server: Any, policy: Policy, engine_at: Any) -> None:
    loop = rollouts_with(policy, engine_at(server.address, temperature=0.7, max_new_tokens=12), version=4)
    server.plant(fault)
    with pytest.raises(RuntimeError, match=IN_A_ROLLOUT[fault]) as found:
        loop.rollout(PROMPTS, 4)
    assert server.address in str(found.value)
    server.plant()
    assert len(loop.rollout(PROMPTS, 4)) == 12, "the next rollout is as if nothing had been"


def test_the_version_of_servers_that_name_one_for_a_whole_completion_is_compared(server: Any, policy: Policy, engine_at: Any) -> None:
    loop = rollouts_with(policy, engine_at(server.address, temperature=0.7, max_new_tokens=12), version=4)
    server.plant("one version")
    assert len(loop.rollout(PROMPTS, 4)) == 12
    server.plant("one version", "wrong version")
    with pytest.raises(RuntimeError, match="sampled with weights of version -3"):
        loop.rollout(PROMPTS, 4)


AT_AN_UPDATE = {
    "stale": "answers as it did with version 4, so the weights have not arrived",
    "one token off": "the trainer one token off",
    "raw log-probs": "are those at temperature 1; start it without SGLANG_RETURN_ORIGINAL_LOGPROB",
    "colder log-probs": "the weights are right and the log-probs are not of logits / temperature",
    "wrong version": "weights of version -3, and the last update was to 5",
    "keeps its version": "the version is '4', expected '5'",
    "reload fails": "status 400: Failed to get weights iterator.*\nThe weights were not taken: treat the server as dead",
    "update fails": "success is False, and it says 'Failed to get weights iterator.*treat the server as dead",
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
    "ignores sampling_seed": "temperature or sampling_seed has no effect",
    "ignores top_k": "top_k has no effect",
    "ignores top_p": "top_p has no effect",
    "ignores min_p": "min_p has no effect",
    "ignores stop_token_ids": "stop_token_ids",
    "ignores max_new_tokens": "max_new_tokens has no effect",
    "no log-probs": "0 log-probs for 8 tokens",
    "without /generate": "/generate: there is no such route. It is no server of SGLang, or an old one",
    "without /model_info": "/model_info: there is no such route. It is no server of SGLang, or an old one",
    "without /update_weights_from_disk": "/update_weights_from_disk: there is no such route",
    "no positions": "the answer has at 'max_req_input_len' .*: Field required",
    "without /update_weight_version": "/update_weight_version: there is no such route",
}


def start_at(server: Any, folder: Path, **arguments: Any) -> None:
    engine = SGLangEngine(addresses=[server.address], folder=str(folder), retries=0, **arguments)
    try:
        engine.start()
    finally:
        engine.close()


@pytest.mark.parametrize("fault", WHEN_CONNECTED)
def test_a_fault_is_found_when_the_server_is_connected(fault: str, server: Any, tmp_path: Path) -> None:
    server.plant(fault)
    with pytest.raises(RuntimeError, match=WHEN_CONNECTED[fault]) as found:
        start_at(server, tmp_path)
    assert server.address in str(found.value)


def test_seeds_without_effect_are_named_with_the_word_that_gives_them_one(start_server: Any, tmp_path: Path) -> None:
    server = start_server(deterministic=False)
    with pytest.raises(RuntimeError, match=r"sampling_seed has no effect.*Start it with --enable-deterministic-inference"):
        start_at(server, tmp_path)


def test_a_server_that_is_paused_is_named(server: Any, tmp_path: Path) -> None:
    server.ask("/pause_generation", {"mode": "retract"})
    with pytest.raises(RuntimeError, match=f"somebody has paused it: curl -X POST {server.address}/continue_generation"):
        start_at(server, tmp_path)


@pytest.mark.thorough
def test_a_wrong_key_is_named_and_not_shown(start_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    right, wrong = "the-right-key-of-the-server", "another-key-that-is-wrong"
    server = start_server("--api-key", right)
    monkeypatch.setenv("MY_KEY", wrong)
    with pytest.raises(RuntimeError, match=r"/model_info: status 401: the server wants another key than \$MY_KEY") as found:
        start_at(server, tmp_path, api_key_env="MY_KEY")
    assert wrong not in str(found.value)
    with pytest.raises(RuntimeError, match="status 401: the server wants a key; name its variable in api_key_env"):
        start_at(server, tmp_path)
    monkeypatch.setenv("MY_KEY", right)
    start_at(server, tmp_path, api_key_env="MY_KEY")
    assert "no key guards" not in caplog.text, "the key of SGLang guards every route"
    assert right not in caplog.text


@pytest.mark.thorough
def test_a_server_that_dies_in_a_rollout_ends_it(start_server: Any, policy: Policy, engine_at: Any) -> None:
    server = start_server()
    loop = rollouts_with(policy, engine_at(server.address, max_new_tokens=12), version=4)
    assert len(loop.rollout(PROMPTS, 4)) == 12
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    with pytest.raises(RuntimeError, match=f"{server.address}/generate: no answer: ConnectError"):
        loop.rollout(PROMPTS, 4)


def test_weights_of_another_model_than_the_server_began_with_are_refused(server: Any, policy: Policy, tmp_path: Path) -> None:
    engine = SGLangEngine(addresses=[server.address], folder=str(tmp_path))
    engine.start()
    before = server.counts().get("/update_weights_from_disk", 0)
    try:
        with pytest.raises(ValueError, match=rf"do not fit {server.address}: its model .*\n.*num_hidden_layers"):
            engine.update_weights(TrainerWeights(TinyPolicy(hidden=16, layers=2, heads=2).build()), 0)
        assert server.counts().get("/update_weights_from_disk", 0) == before
        assert engine.weights == "folder"
    finally:
        engine.close()
