"""The benchmark of a chat model beside TRL: its runs with a tiny policy, and its page."""

from __future__ import annotations

import string
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lightrl_workshop import CodePoints

from benchmarks.learning import chat_beside_trl
from benchmarks.learning.chat_plan import Run, results
from benchmarks.learning.chat_tasks import ChatTask, sums
from lightrl import Function, LoadedPolicy, TinyPolicy

pytestmark = pytest.mark.filterwarnings("ignore")


def tiny() -> LoadedPolicy:
    policy = TinyPolicy(hidden=16, layers=1, heads=2, alphabet=string.printable).build()
    policy.tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}|{% endfor %}"
    return LoadedPolicy(policy.model, policy.tokenizer)


def cell(before: float, after: float) -> dict[str, Any]:
    curve = {"accuracy": [[0, 0.0], [5, before], [10, after]], "rollouts": [{"reward": 9.0}, {"reward": before}, {"reward": after}]}
    machine = {"parameters": 1000, "processor": "p", "threads": 1, "versions": {"torch": "2"}, "seconds": 60.0}
    return {**curve, **machine}


def alike(completion: str) -> float:
    return 0.5


@pytest.fixture
def rewarded(monkeypatch: pytest.MonkeyPatch) -> ChatTask:
    """The sums, whose random answers differ in their rewards."""
    task = replace(sums(), reward=CodePoints())
    monkeypatch.setitem(chat_beside_trl.TASKS, "sums", lambda: task)
    return task


def test_gradients_of_three_losses_are_those_of_trl(rewarded: ChatTask) -> None:
    pytest.importorskip("trl")
    found = chat_beside_trl.gradients(rewarded, 0, tiny())
    assert set(found) == {"grpo", "bnpo", "dr_grpo"}
    assert max(found.values()) < 1e-5


def test_a_gradient_of_zero_is_refused() -> None:
    pytest.importorskip("trl")
    with pytest.raises(ValueError, match="take another seed"):
        chat_beside_trl.gradients(replace(sums(), reward=Function.of(alike)), 0, tiny())


@pytest.mark.parametrize("side", ["grpo", "rows", "trl"])
def test_a_tiny_policy_goes_through_every_side(side: str, rewarded: ChatTask, tmp_path: Path) -> None:
    if side == "trl":
        pytest.importorskip("trl")
    run = Run("sums", side, 1)
    chat_beside_trl.carry_out(run, tiny(), tmp_path / "lines.jsonl", rollouts=1)
    found = results(tmp_path / "lines.jsonl")[run]
    assert [rollouts for rollouts, _ in found["accuracy"]] == [0, 1]
    assert (found["completions"], found["steps"], found["parameters"]) == (48, 2, 5776)
    assert len(found["rollouts"]) == 1


def test_two_sides_are_paired_over_the_seeds_that_both_have() -> None:
    of = {("grpo", 0): (0.5, 0.7), ("grpo", 1): (0.6, 0.8), ("grpo", 2): (0.1, 0.1), ("trl", 0): (0.4, 0.5), ("trl", 1): (0.4, 0.6)}
    cells = {Run("sums", side, seed): cell(*numbers) for (side, seed), numbers in of.items()}
    held_out, reward = chat_beside_trl.table("grpo", "trl", ["sums"], cells).splitlines()
    # means of 0.6 and 0.45 with seed 0, 0.7 and 0.5 with seed 1: differences of 0.15 and 0.2
    assert "| 0.650 | 0.475 | +0.175 (-0.143 to +0.493) | not told apart | 2 |" in held_out
    assert held_out.split("|")[3:] == reward.split("|")[3:]
    assert "not run" in chat_beside_trl.table("rows", "grpo", ["products"], cells)


def test_the_page_is_that_of_the_results() -> None:
    assert chat_beside_trl.PAGE.read_text() == chat_beside_trl.text(chat_beside_trl.known(chat_beside_trl.RESULTS))
