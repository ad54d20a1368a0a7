"""`lightrl sample` and `lightrl generate` play the episodes of the config's environment."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

GAME = """
from lightrl.parts.environment import Environment, Reply

class Digits(Environment):
    \"\"\"Two turns; the second may fail.\"\"\"

    runs = "inline"
    gives_rewards = True

    def begin(self, prompt, seed):
        self.turn = 0
        return f"{prompt.text or seed % 10}?"

    def reply(self, completion):
        self.turn += 1
        if self.turn == 2 and completion[-1:] == "7":
            raise ArithmeticError("seven")
        return Reply(">", float(completion[-1:] in tuple("01234")), self.turn == 2)
"""


@pytest.fixture
def game(write: Callable[..., Path], config: dict[str, Any]) -> dict[str, Any]:
    """A config without rewards, whose environment gives them."""
    write("two_turns.py", GAME)
    model = config["model"]
    model["rewards"] = None
    model["environment"] = {"class_path": "two_turns.Digits", "init_args": {"max_error_rate": 1.0}}
    model["engine"] = {"max_new_tokens": 30, "stop": list("0123456789")}
    config["data"] = {"train": {"class_path": "EpisodeSeeds", "init_args": {"size": 20}}, "validation_size": 4}
    write("game.yaml", config)
    return config


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_sample_writes_whole_episodes_with_the_rewards_of_their_environment(lightrl: Callable[..., Any], game: dict[str, Any]) -> None:
    words = ("sample", "--config", "game.yaml", "--n", "4", "--prompts", "8")
    answer = lightrl(*words, "--keep", "all", "--out", "all.jsonl")
    assert answer.status == 0, answer.err
    written = rows(Path("all.jsonl").read_text())
    whole = [row for row in written if row["finish_reason"] == "stop"]
    assert {row["turns"] for row in whole} == {2}
    assert all(row["reward"] == row["rewards"]["environment"] for row in whole)
    assert {0.0, 1.0, 2.0} == {row["reward"] for row in whole}
    assert all([message["role"] for message in row["messages"]] == ["user", "assistant"] * 2 + ["user"] for row in whole)
    assert lightrl(*words, "--at_least", "2", "--out", "best.jsonl").status == 0
    assert all(row["reward"] == 2 for row in rows(Path("best.jsonl").read_text()))


def test_an_environment_that_keeps_failing_ends_sample(lightrl: Callable[..., Any], game: dict[str, Any]) -> None:
    answer = lightrl("sample", "--config", "game.yaml", "--n", "8", "--model.environment.max_error_rate", "0", "--out", "out.jsonl")
    assert answer.status == 2
    assert "model.environment" in answer.err
    assert "seven" in answer.err


def test_generate_prints_whole_episodes_and_why_one_has_failed(lightrl: Callable[..., Any], game: dict[str, Any]) -> None:
    answer = lightrl("generate", "--policy", "game.yaml", "--prompt", "12", "--n", "40")
    assert answer.status == 0, answer.err
    printed = rows(answer.out)
    whole = [row for row in printed if row["finish_reason"] == "stop"]
    assert all(row["turns"] == 2 and row["messages"][0]["content"] == "12?" for row in whole)
    assert all(row["messages"][3]["content"] == row["completion"] for row in whole)
    failed = [row for row in printed if row["finish_reason"] == "failed"]
    assert len(failed) > 0
    assert all("ArithmeticError: seven" in row["failure"] for row in failed)
