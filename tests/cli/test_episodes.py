"""`lightrl sample` and `lightrl generate` play the episodes of the config's environment."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def game(write: Callable[..., Path], episodes: dict[str, Any]) -> dict[str, Any]:
    """A config without rewards, whose environment gives them."""
    episodes["model"]["rewards"] = None
    write("game.yaml", episodes)
    return episodes


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
    assert "too high" in answer.err


def test_generate_prints_whole_episodes_and_why_one_has_failed(lightrl: Callable[..., Any], game: dict[str, Any]) -> None:
    answer = lightrl("generate", "--policy", "game.yaml", "--prompt", "12", "--n", "40")
    assert answer.status == 0, answer.err
    printed = rows(answer.out)
    whole = [row for row in printed if row["finish_reason"] == "stop"]
    assert all(row["turns"] == 2 and row["messages"][0]["content"] == "12?" for row in whole)
    assert all(row["messages"][3]["content"] == row["completion"] for row in whole)
    failed = [row for row in printed if row["finish_reason"] == "failed"]
    assert len(failed) > 0
    assert all("ArithmeticError: too high" in row["failure"] for row in failed)
