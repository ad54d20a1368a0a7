"""Servers in processes of their own: a program of the standard library, or vLLM's own where `LIGHTRL_REAL_VLLM` is set."""

import json
import os
import socket
import stat
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from lightrl_workshop.checks import continuations
from lightrl_workshop.contracts import rollout_engine as engine_contract

from lightrl import Policy, TinyPolicy

START_S = 900
PROGRAM = Path(__file__).parent / "tiny_vllm.py"
REAL = bool(os.environ.get("LIGHTRL_REAL_VLLM"))
REAL_WORDS = (
    "--enable-scale-out --enable-prompt-tokens-details --generation-config vllm --dtype float32 --enforce-eager --max-num-seqs 256 "
    "--max-num-batched-tokens 32768 --enable-lora --max-lora-rank 8"
)
REAL_ENVIRONMENT = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


def policy_for_kernels(seed: int = 0) -> Policy:
    """A peaked policy whose heads are as wide as kernels take them, and whose head is its own: on a CPU, a reload keeps a tied one."""
    tiny = TinyPolicy(hidden=128, layers=1, heads=2, seed=seed).build()
    config = type(tiny.model.config)(**{**tiny.model.config.to_dict(), "tie_word_embeddings": False})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        policy = Policy(type(tiny.model)(config), tiny.tokenizer)
        with torch.no_grad():
            for parameter in policy.model.parameters():
                parameter.add_(0.05 * torch.randn(parameter.shape))
    return policy


if REAL:
    continuations.peaked_policy = engine_contract.peaked_policy = policy_for_kernels


class Served:
    """A running server."""

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The JSON value of the reply; None if that is empty, as a real server's is where one asks for its health."""
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self.address + path, data), timeout=10) as reply:
            return json.loads(reply.read() or b"null")

    def plant(self, *faults: str) -> Any:
        """Have it fail in these ways, and no others."""
        if REAL:
            return pytest.skip("a real server has no faults to plant") if faults else None
        return self.ask("/faults", {"names": faults})

    def counts(self) -> dict[str, int]:
        """Requests so far, by path."""
        if REAL:
            pytest.skip("a real server does not count its requests")
        counted: dict[str, int] = self.ask("/counts")
        return counted


@pytest.fixture(scope="session")
def start_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Served]]:
    """Starts servers of `peaked_policy`, in processes of their own."""
    folder = tmp_path_factory.mktemp("served")
    continuations.peaked_policy().save(folder)
    processes = []

    def start(mode: str) -> Served:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        program = ["vllm"] if REAL else [sys.executable, str(PROGRAM)]
        words = ["--host", "127.0.0.1", "--port", str(port), "--logprobs-mode", mode, *(REAL_WORDS.split() if REAL else ())]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **REAL_ENVIRONMENT}
        processes.append(subprocess.Popen([*program, "serve", str(folder), *words], stdout=subprocess.DEVNULL, env=environment))
        served = Served(f"http://127.0.0.1:{port}")
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            try:
                served.ask("/health")
                return served
            except OSError:
                assert processes[-1].poll() is None, "it has ended"
                time.sleep(0.1)
        raise AssertionError("the server does not answer")

    yield start
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def _server(start_server: Callable[..., Served]) -> Served:
    return start_server("processed_logprobs")


@pytest.fixture
def server(_server: Served) -> Iterator[Served]:
    """A server with processed log-probs and no faults."""
    _server.plant()
    yield _server
    _server.plant()


@pytest.fixture(scope="session")
def raw_server(start_server: Callable[..., Served]) -> Served:
    """A server with raw log-probs."""
    return start_server("raw_logprobs")


@pytest.fixture
def vllm_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program named vllm."""
    program = tmp_path / "bin" / "vllm"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{PROGRAM}" "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    return program
