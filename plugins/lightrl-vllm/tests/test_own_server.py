"""A server that the engine starts itself, and what becomes of it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from lightrl_servers.own_server import FOLLOW_PARENT, OwnServer
from lightrl_servers.server import ServerError
from lightrl_vllm import VLLMEngine
from lightrl_vllm.vllm_dialect import VLLMDialect
from lightrl_workshop.checks.continuations import answers, group, peaked_policy

from lightrl import ApiKey
from lightrl.policy.weights import TrainerWeights

KEY = "a-key-that-nobody-may-see"


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def servers() -> set[int]:
    """The servers that this process has started."""
    children = [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    return {pid for pid in children if b"tiny_vllm.py" in Path(f"/proc/{pid}/cmdline").read_bytes()}


@pytest.mark.thorough
def test_it_starts_serves_keeps_its_key_and_ends_with_the_engine(
    vllm_on_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    engine = VLLMEngine(
        folder=str(tmp_path / "vllm"), temperature=0.7, api_key_env="MY_KEY", start_limit_s=180.0, serve=["--max-model-len", "300"]
    )
    policy = peaked_policy()
    # other tests of this process have servers too
    before = servers()
    engine.start()
    try:
        engine.update_weights(TrainerWeights(policy), 2)
        assert engine.comparable_logprobs, "it has chosen the mode of log-probs"
        assert len(answers(engine, group(engine.sampling))) == 5
        (server,) = servers() - before
        assert b"--dtype\0float32" in Path(f"/proc/{server}/cmdline").read_bytes()
        os.kill(server, signal.SIGKILL)
        engine.submit(group(engine.sampling))
        with pytest.raises(RuntimeError, match=r"ended with status -9; the end of .*vllm.log:\nserving"):
            engine.results()
    finally:
        engine.close()
    assert not alive(server)
    (place,) = (tmp_path / "vllm").iterdir()
    assert [path.name for path in place.iterdir()] == ["vllm.log"]
    assert "--enable-scale-out --enable-prompt-tokens-details" in (place / "vllm.log").read_text()
    assert "no key guards the routes that pause a server" in caplog.text
    assert KEY not in caplog.text + (place / "vllm.log").read_text()


def test_a_start_that_fails_shows_the_end_of_the_log(vllm_on_path: Path, tmp_path: Path) -> None:
    vllm_on_path.write_text("#!/bin/sh\necho Failed to infer device type\nexit 3\n")
    engine = VLLMEngine(folder=str(tmp_path / "vllm"))
    engine.start()
    try:
        with pytest.raises(RuntimeError, match=r"ended with status 3; the end of .*vllm.log:\nFailed to infer device type"):
            engine.update_weights(TrainerWeights(peaked_policy()), 0)
    finally:
        engine.close()


def test_h3_the_end_of_the_log_is_cut_after_the_key_is_hidden(vllm_on_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    for cut in (1, 10, len(KEY) - 1):
        vllm_on_path.write_text(f"#!/bin/sh\necho {KEY}{'x' * (2000 - cut)}\nexit 3\n")
        own = OwnServer(VLLMDialect.program, tmp_path / f"{cut}.log", ApiKey("MY_KEY"), None)
        with pytest.raises(ServerError, match="ended with status 3") as failed:
            own.start("a-folder", [], 60.0)
        own.close()
        assert not runs_of_the_key(str(failed.value))


def runs_of_the_key(text: str) -> list[str]:
    return [KEY[at : at + 8] for at in range(len(KEY) - 7) if KEY[at : at + 8] in text]


def test_h3_the_log_never_holds_the_key(vllm_on_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    pieces = "sleep 0.1\n".join(f"printf %s '{piece}'\n" for piece in ("é api_key=", KEY[:5], KEY[5:9], KEY[9:20], KEY[20:], " and so on"))
    vllm_on_path.write_text(f"#!/bin/sh\necho {'x' * 70_000}{KEY}\n{pieces}echo; echo 'key {KEY}' >&2\nprintf 'the end'\nexit 3\n")
    own = OwnServer(VLLMDialect.program, tmp_path / "vllm.log", ApiKey("MY_KEY"), None)
    with pytest.raises(ServerError, match="the end"):
        own.start("a-folder", [], 60.0)
    own.close()
    first, second, *rest = (tmp_path / "vllm.log").read_text().splitlines()
    assert first == f"{'x' * 70_000}$MY_KEY"
    assert second.startswith("é api_key=")
    assert second.endswith(" and so on")
    assert not runs_of_the_key(second)
    assert rest == ["key $MY_KEY", "the end"]


def test_a_start_takes_no_longer_than_its_limit_and_ends_what_it_began(vllm_on_path: Path, tmp_path: Path) -> None:
    vllm_on_path.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nsleep 600\n")
    engine = VLLMEngine(folder=str(tmp_path / "vllm"), start_limit_s=3.0)
    engine.start()
    try:
        with pytest.raises(RuntimeError, match="vllm serve did not answer within 3 s: raise start_limit_s, or read"):
            engine.update_weights(TrainerWeights(peaked_policy()), 0)
    finally:
        engine.close()
    assert not alive(int((tmp_path / "pid").read_text()))


def test_without_vllm_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    engine = VLLMEngine(folder=str(tmp_path / "vllm"))
    engine.start()
    try:
        with pytest.raises(RuntimeError, match=r"no program named vllm on the path.*give model\.engine\.addresses"):
            engine.update_weights(TrainerWeights(peaked_policy()), 0)
    finally:
        engine.close()


def test_a_server_ends_with_a_trainer_that_is_killed(tmp_path: Path) -> None:
    trainer = (
        "import os, subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-I', {str(FOLLOW_PARENT)!r}, str(os.getpid()), 'sleep', '600'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", trainer], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        server = int(process.stdout.readline())
        deadline = time.monotonic() + 60
        while Path(f"/proc/{server}/cmdline").read_bytes().strip(b"\0") != b"sleep\x00600" and time.monotonic() < deadline:
            time.sleep(0.05)
        process.kill()
    while alive(server) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(server)
