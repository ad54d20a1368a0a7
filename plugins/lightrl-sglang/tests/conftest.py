"""Servers in processes of their own: a program of the standard library, or SGLang's own, with the words in `LIGHTRL_REAL_SGLANG`."""

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
PROGRAM = Path(__file__).parent / "tiny_sglang.py"
REAL = os.environ.get("LIGHTRL_REAL_SGLANG", "").split()


def policy_for_kernels(seed: int = 0) -> Policy:
    """A peaked policy whose heads are as wide as kernels take them."""
    policy = TinyPolicy(hidden=128, layers=1, heads=2, seed=seed).build()
    numbers = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=numbers))
    return policy


if REAL:
    continuations.peaked_policy = engine_contract.peaked_policy = policy_for_kernels


class Served:
    """A running server."""

    def __init__(self, address: str, process: "subprocess.Popen[bytes]") -> None:
        self.address, self.process = address, process

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The JSON value of the reply; None if that is empty."""
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

    def start(*words: str, deterministic: bool = True) -> Served:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        if REAL and {"--eos", "--original-logprobs"}.intersection(words):
            pytest.skip(f"a real server has no option {words[0]}")
        seeded = ["--enable-deterministic-inference"] if deterministic else []
        program = ["sglang"] if REAL else [sys.executable, str(PROGRAM)]
        command = [*program, "serve", "--model-path", str(folder), "--port", str(port), *seeded, *REAL, *words]
        processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"}))
        served = Served(f"http://127.0.0.1:{port}", processes[-1])
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
    return start_server()


@pytest.fixture
def server(_server: Served) -> Iterator[Served]:
    """A server without faults."""
    _server.plant()
    yield _server
    _server.plant()


@pytest.fixture
def sglang_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program named sglang."""
    program = tmp_path / "bin" / "sglang"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{PROGRAM}" "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    return program
