"""A server that the engine starts itself, and what becomes of it; words that could execute code which a config names."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from lightrl_sglang import SGLangEngine
from lightrl_workshop.checks.continuations import answers, group, peaked_policy

from lightrl.policy.weights import TrainerWeights


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def servers() -> set[int]:
    """The servers that this process has started."""
    children = [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    return {pid for pid in children if b"tiny_sglang.py" in Path(f"/proc/{pid}/cmdline").read_bytes()}


@pytest.mark.thorough
def test_it_starts_serves_and_ends_with_the_engine(sglang_on_path: Path, tmp_path: Path, caplog: Any) -> None:
    engine = SGLangEngine(folder=str(tmp_path / "sglang"), temperature=0.7, start_limit_s=180.0, serve=["--context-length", "300"])
    policy = peaked_policy()
    # other tests of this process have servers too
    before = servers()
    engine.start()
    try:
        engine.update_weights(TrainerWeights(policy), 2)
        assert engine.comparable_logprobs
        assert len(answers(engine, group(engine.sampling))) == 5
        (server,) = servers() - before
        words = Path(f"/proc/{server}/cmdline").read_bytes().split(b"\0")
        assert {b"serve", b"--dtype", b"float32", b"--enable-deterministic-inference", b"--context-length", b"127.0.0.1"} < set(words)
        os.kill(server, signal.SIGKILL)
        engine.submit(group(engine.sampling))
        with pytest.raises(RuntimeError, match=r"sglang serve has ended with status -9; the end of .*sglang.log:\nserving"):
            engine.results()
    finally:
        engine.close()
    assert not alive(server)
    (place,) = (tmp_path / "sglang").iterdir()
    assert [path.name for path in place.iterdir()] == ["sglang.log"]
    assert "no key guards" not in caplog.text


def test_a_start_that_fails_shows_the_end_of_the_log(sglang_on_path: Path, tmp_path: Path) -> None:
    sglang_on_path.write_text("#!/bin/sh\necho No accelerator is available\nexit 3\n")
    engine = SGLangEngine(folder=str(tmp_path / "sglang"))
    engine.start()
    try:
        with pytest.raises(RuntimeError, match=r"ended with status 3; the end of .*sglang.log:\nNo accelerator is available"):
            engine.update_weights(TrainerWeights(peaked_policy()), 0)
    finally:
        engine.close()


def test_without_sglang_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    engine = SGLangEngine(folder=str(tmp_path / "sglang"))
    engine.start()
    try:
        with pytest.raises(RuntimeError, match=r"no program named sglang on the path. Install SGLang.*give model\.engine\.addresses"):
            engine.update_weights(TrainerWeights(peaked_policy()), 0)
    finally:
        engine.close()


@pytest.mark.parametrize(
    "words",
    [
        ["--trust-remote-code"],
        ["--trust_remote_code"],
        ["--trust-rem"],
        ["--custom-weight-loader", "evil.load"],
        ["--forward-hooks={}"],
        ["--context-length", "4096", "--load-format", "pt"],
        ["--config", "more.yaml"],
        ["--enable-custom-logit-processor"],
    ],
)
def test_words_that_may_execute_code_need_trust(words: list[str]) -> None:
    with pytest.raises(ValueError, match="trust_serve: true"):
        SGLangEngine(serve=words)
    assert SGLangEngine(serve=words, trust_serve=True).serve == words


def test_words_that_execute_none_are_taken() -> None:
    words = ["--context-length", "4096", "--mem_fraction_static=0.7", "--random-seed", "-1", "--tp", "2", "--attention-backend", "triton"]
    assert SGLangEngine(serve=words).serve == words
