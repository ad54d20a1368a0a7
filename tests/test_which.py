"""The benchmark of all online algorithms on small tasks: what is right, how many completions are made, and which rate is measured."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest

from benchmarks.learning import which, which_page, which_run, which_tasks
from benchmarks.learning.which import SEEDS, Cell, best_rate
from benchmarks.learning.which_algorithms import ALGORITHMS, Given
from lightrl import Prompt
from lightrl.config.describe.algorithms import registered

TEACHERS = {"GKD", "OPSD", "OnPolicyDistillation", "SDFT", "SDPO"}
ALIKE = {"GSPOToken"}
"""GSPO, where the tokens of a completion have one advantage."""


def test_every_online_algorithm_without_a_teacher_is_there() -> None:
    own = {cls.__name__ for _, cls in registered() if cls.__module__.startswith("lightrl_")}
    assert set(ALGORITHMS) == own - TEACHERS - ALIKE


@pytest.mark.filterwarnings("ignore:PolicyGradient has no bound")
@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_an_algorithm_has_the_name_of_its_class_and_the_steps_of_the_task(name: str) -> None:
    made = ALGORITHMS[name](Given(7, "right", {"epochs": 2, "minibatches": 4}))
    assert (type(made).__name__, made.epochs, made.minibatches) == (name, 2, 4)
    assert made.kl is None or made.kl.against == "old", "nothing holds a policy to its start"


@pytest.mark.parametrize("name", sorted(which_tasks.TASKS))
def test_the_best_score_is_1_and_nothing_held_out_is_learnt_from(name: str) -> None:
    task = which_tasks.TASKS[name]()
    train, held_out = task.split()
    assert not {prompt.text for prompt in train.prompts} & {prompt.text for prompt in held_out.prompts}
    for prompt in held_out.prompts[:8]:
        assert task.score(str(prompt.answer), str(prompt.answer)) == 1
        assert task.score("", str(prompt.answer)) < 1
    assert len(str(prompt.answer)) < task.longest + 1
    assert set(str(prompt.answer)) <= set(task.alphabet)


def test_a_game_is_worth_1_and_ends_with_a_wrong_door() -> None:
    prompt = Prompt(id="fade", text="fade", answer="6145")
    game = which_tasks.Rooms()
    assert game.begin(prompt, 0) == "f>"
    replies = [game.reply(door) for door in "6145"]
    assert [reply.said for reply in replies] == ["a>", "d>", "e>", ""]
    assert sum(reply.reward or 0 for reply in replies) == 1
    game.begin(prompt, 0)
    wrong = game.reply("1")
    assert (wrong.reward, wrong.done) == (0, True)


@pytest.mark.parametrize("known", [0.0, 0.5, 1.0])
def test_rows_to_imitate_are_right_as_often_as_said(known: float) -> None:
    task = which_tasks.TASKS["often"]()
    answers = {prompt.text: prompt.answer for prompt in task.split()[0].prompts}
    rows = task.imitated(2000, known, seed=0).prompts
    share = sum(answers[row.text] == row.answer for row in rows) / len(rows)
    assert share == pytest.approx(known + (1 - known) / 6, abs=0.04)


def test_a_row_of_a_game_is_a_whole_game() -> None:
    row = which_tasks.TASKS["turns"]().imitated(1, 1.0, seed=0).prompts[0]
    said = f"{row.text}{row.answer}"
    signs, doors = said[0::3], said[2::3]
    assert len(said) == 12
    assert [which_tasks.LETTERS.index(sign) for sign in signs] == [which_tasks.DOORS.index(door) for door in doors]


def test_the_judge_is_wrong_one_time_in_four() -> None:
    random.seed(0)
    assert sum(which_tasks.unsure("a", "a") for _ in range(4000)) / 4000 == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize(
    ("algorithm", "task"), [("GRPO", "often"), ("ReMax", "often"), ("DAPO", "turns"), ("GPG", "noisy"), ("PPO", "long")]
)
def test_a_run_ends_when_its_completions_are_made(algorithm: str, task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small = dataclasses.replace(which_tasks.TASKS[task](), rollouts=2)
    monkeypatch.setitem(which_run.TASKS, task, lambda: small)
    monkeypatch.setattr(which_run, "LEARNT", 64)
    monkeypatch.setattr(which_run, "FORGOTTEN", 64)
    for kept in (which_run.start, which_run.before):
        kept.cache_clear()
    found = which_run.trained(task, algorithm, 1e-3, 0)
    assert found["completions"] >= 2 * which_run.AT_ONCE
    assert found["rollouts"] == {"ReMax": 1}.get(algorithm, found["rollouts"]) <= 2, "a greedy completion counts too"
    assert found == which_run.trained(task, algorithm, 1e-3, 0)
    for kept in (which_run.start, which_run.before):
        kept.cache_clear()


def scores(after: float) -> dict[str, Any]:
    return {"before": 0.25, "after": after, "completions": 640, "rollouts": 10}


def test_a_seed_has_no_say_in_the_rate_that_it_is_measured_with() -> None:
    # alone, seed 1 would choose the first rate
    after = {0.001: {0: 0.5, 1: 0.9, 2: 0.5}, 0.002: {0: 0.6, 1: 0.6, 2: 0.6}}
    assert best_rate(after) == 0.001
    assert [best_rate(after, seed) for seed in range(3)] == [0.001, 0.002, 0.001]


def test_a_row_is_whole_or_not_there_and_no_run_is_repeated() -> None:
    rates, found = which_tasks.TASKS["often"]().rates, dict[Cell, Any]()
    every = list(which.missing(["often"], ["GRPO"], found))
    assert every == [Cell("often", "GRPO", rate, seed) for seed in SEEDS for rate in rates]
    for cell in every[:-1]:
        found[cell] = scores(0.8 if cell.rate == rates[1] else 0.7)
    assert which.measured(found) == []
    assert list(which.missing(["often"], ["GRPO"], found)) == every[-1:]
    found[every[-1]] = scores(0.8)
    (row,) = which.measured(found)
    assert (row["rate"], row["after"], row["before"]) == (rates[1], [0.8] * len(SEEDS), [0.25] * len(SEEDS))


def test_the_page_has_every_row_and_says_what_is_not_told_apart(tmp_path: Path) -> None:
    after = {"GRPO": [0.9, 0.85, 0.95, 0.9, 0.9], "GSPO": [0.9, 0.9, 0.9, 0.85, 0.9], "PPO": [0.4, 0.35, 0.45, 0.4, 0.4]}
    rows = [{"task": "often", "algorithm": name, "rate": 0.001, "before": [0.25] * 5, "after": of} for name, of in after.items()]
    page, file = tmp_path / "page.md", tmp_path / "measured.json"
    which_page.write_page(rows, file, page, tmp_path / "picture.png")
    said = page.read_text()
    assert "| GRPO | lightrl-grpo | **0.867** | **0.87 ± 0.06** |" in said
    assert "| PPO (critic) | lightrl-ppo | 0.200 | 0.20 ± 0.06 |" in said
    assert "2 of 3 are not told apart from GRPO." in said
    assert (tmp_path / "picture.png").stat().st_size > 1000
