"""Whole way to a real model: `transformers serve` with a tiny one that has learnt to grade two answers, and one that knows nothing."""

import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from lightrl_judge import JudgePreference, JudgeScore

from lightrl.types import Outcome

ROOT = Path(__file__).resolve().parents[3]
START_S = 180
QUESTIONS = {
    "right": '{"score": 7}',
    "wrong": '{"score": 2}',
    "right or wrong": '{"winner": "A"}',
    "wrong or right": '{"winner": "B"}',
}
"""By question, the reply that the judge learns."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Folders of a model that has learnt the answers to `QUESTIONS`, and of the same one before."""
    spec = importlib.util.spec_from_file_location("make_tiny_qwen", ROOT / "examples" / "make_tiny_qwen.py")
    assert spec is not None
    assert spec.loader is not None
    tiny = importlib.util.module_from_spec(spec)
    sys.modules["make_tiny_qwen"] = tiny
    spec.loader.exec_module(tiny)
    size = tiny.Size(hidden=64, layers=2, heads=4, key_value_heads=2, vocabulary=384, positions=512)
    tokenizer = tiny.train_tokenizer(iter([*QUESTIONS, *QUESTIONS.values()]), size)
    model = tiny.build_model(tokenizer, size, seed=0)
    folders = {name: str(tmp_path_factory.mktemp(name)) for name in ("random", "learnt")}
    for name, folder in folders.items():
        if name == "learnt":
            imitate(model, tokenizer)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folders


def imitate(model: Any, tokenizer: Any) -> None:
    rows = []
    for question, reply in QUESTIONS.items():
        asked = tokenizer.apply_chat_template([{"role": "user", "content": question}], tokenize=False, add_generation_prompt=True)
        prompt, answer = tokenizer(asked).input_ids, tokenizer(reply + tokenizer.eos_token).input_ids
        rows.append((torch.tensor([prompt + answer]), torch.tensor([[-100] * len(prompt) + answer])))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(200):
        loss = torch.stack([model(input_ids=ids, labels=labels).loss for ids, labels in rows]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss < 0.01:
            return
    raise AssertionError(f"the judge has not learnt its replies: loss {loss.item():.3f}")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of `transformers serve`, which loads the model that a request names."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("serve") / "log"
    command = [str(Path(sys.executable).parent / "transformers"), "serve", "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"})
    try:
        wait_for(f"http://127.0.0.1:{port}/health", process, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


def wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=1):
                return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"transformers serve did not start: {log.read_text()[-2000:]}")


@pytest.mark.thorough
def test_scores_come_back_from_a_real_model(served: str, models: dict[str, str], scored: Any, caplog: Any) -> None:
    arguments: dict[str, Any] = {"base_url": served, "api_key_env": None, "system": "", "max_tokens": 24, "timeout_s": 60}
    learnt = JudgeScore(models["learnt"], template="{completion}", **arguments)
    assert scored(learnt, ["right", "wrong", "right"]).reward_parts["judge"].tolist() == pytest.approx([0.7, 0.2, 0.7])
    counts = learnt.counts()
    assert counts["requests"] == 3
    assert 3 * 8 < counts["tokens"] < 3 * 100

    preference = JudgePreference(models["learnt"], template="{a} or {b}", **arguments)
    assert scored(preference, ["right"], answer="wrong").reward_parts["judge"].tolist() == [1.0]
    assert scored(preference, ["wrong"], answer="right").reward_parts["judge"].tolist() == [0.0]

    ignorant = JudgeScore(models["random"], template="{completion}", **arguments)
    rows = scored(ignorant, ["right", "wrong"])
    assert rows.outcomes["judge"].tolist() == [Outcome.ERROR, Outcome.ERROR]
    assert rows.reward_parts["judge"].isnan().all()
    assert "TruncatedError" in caplog.text or "UnreadableError" in caplog.text

    absent = JudgeScore(models["learnt"] + "-not", template="{completion}", retries=0, **arguments)
    assert scored(absent, ["right"]).outcomes["judge"].tolist() == [Outcome.ERROR]
