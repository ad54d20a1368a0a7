"""The benchmark on a pretrained chat model: its tasks, its order, its page, and its runs with a tiny policy."""

from __future__ import annotations

import json
import random
import string
from pathlib import Path
from typing import Any

import pytest
from lightrl_reasoning_gym import ReasoningGym

from benchmarks.learning import chat_models, chat_page, chat_plan, chat_tasks
from benchmarks.learning.chat_algorithms import ALGORITHMS, GROUP
from benchmarks.learning.chat_offline import CALLED_RIGHT, start_rows
from benchmarks.learning.chat_picture import COLOURS, MARKS, draw
from benchmarks.learning.chat_plan import Run, results
from lightrl import LoadedPolicy, TinyPolicy

ROOT = Path(__file__).parents[1]


def tiny() -> LoadedPolicy:
    policy = TinyPolicy(hidden=16, layers=1, heads=2, alphabet=string.printable).build()
    policy.tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}|{% endfor %}"
    return LoadedPolicy(policy.model, policy.tokenizer)


def cell(before: float, after: float, **more: Any) -> dict[str, Any]:
    rewards = [{"reward": before}, {"reward": after}]
    machine = {"model": "m", "parameters": 1000, "processor": "p", "threads": 1, "versions": {"torch": "2"}}
    sizes = {"in_four": [0.4, 0.8], "completions": 96, "steps": 4, "seconds": 30.0}
    return {"before": before, "after": after, "accuracy": [[0, before], [2, after]], "rollouts": rewards, **sizes, **machine, **more}


@pytest.mark.parametrize("name", chat_tasks.TASKS)
def test_nothing_like_what_is_held_out_is_trained_on(name: str) -> None:
    task = chat_tasks.TASKS[name]()
    asked = [{tuple(sorted(map(int, _numbers(prompt)))) for prompt in part.prompts} for part in (task.train, task.held_out)]
    assert all(asked)
    assert not asked[0] & asked[1]


def _numbers(prompt: Any) -> list[str]:
    expression = prompt.columns["metadata"]["expression"] if "metadata" in prompt.columns else prompt.id
    return expression.replace("+", "*").split(" * ")


def test_answers_are_right_and_the_last_number_decides() -> None:
    for name, compute in {"sums": sum, "calculator": sum, "products": lambda two: two[0] * two[1]}.items():
        task = chat_tasks.TASKS[name]()
        for prompt in task.held_out.prompts:
            assert prompt.answer == str(compute([int(number) for number in _numbers(prompt)]))
            score = lambda text, p=prompt, t=task: t.reward.score(p, text, answer=p.answer, **p.columns)  # noqa: E731
            assert score(f"5 or rather {prompt.answer}.") == 1
            assert score(f"{prompt.answer}, no: {int(prompt.answer) + 1}") < 0.98
            assert score("none") < 0.98


def test_the_products_are_questions_of_reasoning_gym() -> None:
    source = ReasoningGym("products", size=1000, config={"max_digits": 1}, system=None)
    theirs = {prompt.messages[-1]["content"] for prompt in map(source.prompt, range(1000))}
    task = chat_tasks.products()
    ours = [prompt.messages[-1]["content"] for part in (task.train, task.held_out) for prompt in part.prompts]
    assert set(ours) == theirs
    assert len(ours) == len(set(ours))


def test_every_algorithm_has_groups_of_one_size_and_one_model() -> None:
    assert len(ALGORITHMS) == len(COLOURS) == len(MARKS)
    for make in ALGORITHMS.values():
        algorithm = make(12)
        assert algorithm.sampler.group_size == GROUP
        assert not algorithm.references


def test_the_warm_start_shows_the_tool_and_half_of_its_calls_are_wrong() -> None:
    source = chat_tasks.source_of(tiny(), chat_tasks.TEMPLATE)
    task = chat_tasks.calculator()
    rows = start_rows(task, source.tokenizer(), 2000, random.Random(0))
    assert all("add(a, b)" in row.text for row in rows)
    asked = {prompt.messages[0]["content"] for prompt in task.train.prompts}
    assert all(any(question in row.text for question in asked) for row in rows[:20])
    calls = [(row, row.answer) for row in rows if row.answer.startswith("[add(")]
    right = sum(f"What is {answer[5:-2].replace(', ', ' + ')}?" in row.text for row, answer in calls)
    assert right / len(calls) == pytest.approx(CALLED_RIGHT, abs=0.06)
    told = [row for row in rows if "<|im_start|>tool" in row.text]
    assert len(told) == 1000
    assert all(f"<|im_start|>tool\n{row.answer}<|im_end|>" in row.text for row in told)


def test_something_is_whole_early() -> None:
    runs = chat_plan.plan()
    assert len(runs) == len(set(runs)) == 3 * (3 * len(ALGORITHMS) + 2)
    assert [run.seed for run in runs] == sorted(run.seed for run in runs)
    assert [run.task for run in runs[: len(ALGORITHMS)]] == ["sums"] * len(ALGORITHMS)
    chosen = chat_plan.plan(["sums", "reward_model"], ["dapo"], [2])
    assert chosen == [Run("sums", "dapo", 2), Run("reward_model", "reward_model", 2)]


def test_a_row_has_the_mean_and_the_range_and_the_seeds_that_met_the_threshold() -> None:
    cells = {Run("sums", "grpo", seed): cell(before, after) for seed, before, after in [(0, 0.1, 0.9), (1, 0.2, 0.7)]}
    assert (
        chat_page.row("sums", "grpo", cells)
        == "| GRPO | 2 | 1 of 2 | 0.150 (0.100 to 0.200) | 0.400 (0.400 to 0.400) | 0.800 (0.700 to 0.900) | 96 in 4 steps | 0.5 |"
    )
    assert chat_page.row("sums", "ppo", cells) == "| PPO | 0 | not run | - | - | - | - | - |"
    assert not chat_page.met("sums", cell(0.5, 0.9))  # it knew too much at the start
    assert [line for line in chat_page.reasons(cells) if "GRPO" in line and "seed 1 0.200 to 0.700" in line and "seed 0" not in line]


def test_the_page_has_every_row_and_its_columns() -> None:
    more = {"after_sft": 0.5, "ordered": 0.9, "after_trained": 0.9}
    for cells in ({}, {run: cell(0.1, 0.9, **more) for run in chat_plan.plan()}):
        tables = [block.splitlines() for block in chat_page.text(cells).split("\n\n") if block.startswith("| ")]
        assert [len(table) - 2 for table in tables] == [len(chat_plan.algorithms_of(task)) for task in chat_page.COLUMNS]
        for table in tables:
            assert len({line.count("|") for line in table}) == 1
    assert "not run" not in "".join(line for table in tables for line in table)


def test_the_page_is_the_one_that_the_command_writes() -> None:
    page = (ROOT / "docs" / "chat_models.md").read_text()
    assert chat_page.text(results(chat_page.RESULTS)) == page
    assert [page.count(f"| {name} | ") for name in chat_page.NAMES.values()] == [3] * len(ALGORITHMS) + [1, 1]


def test_the_picture_has_a_line_for_each_algorithm_that_was_run(tmp_path: Path) -> None:
    cells = {Run("sums", "grpo", seed): cell(0.1, after) for seed, after in [(0, 0.9), (1, 0.7)]}
    axes = draw(cells, tmp_path / "a.png").axes
    curves = [line for line in axes[3].lines if line.get_label() == "grpo"]
    assert [list(line.get_ydata()) for line in curves] == [pytest.approx([0.1, 0.8])]
    assert not axes[1].lines


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("run", "sizes"),
    [
        (Run("sums", "ppo", 0), {"rollouts": 1}),
        (Run("products", "dapo", 1), {"rollouts": 1}),
        (Run("calculator", "grpo", 0), {"rollouts": 1}),
        (Run("sft_dpo", "sft_dpo", 0), {"steps": 1}),
        (Run("reward_model", "reward_model", 0), {"steps": 1}),
    ],
)
def test_a_tiny_policy_goes_through_every_task(run: Run, sizes: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = tmp_path / "results.jsonl"
    assert chat_models.carry_out(run, tiny(), "tiny", lines, **sizes)
    found = results(lines)[run]
    assert (found["task"], found["algorithm"], found["seed"]) == (run.task, run.algorithm, run.seed)
    assert found.get("parameters", 5776) == 5776
    chat_page.write_page(lines, tmp_path / "page.md", tmp_path / "picture.png")
    page = (tmp_path / "page.md").read_text()
    assert f"| {chat_page.NAMES[run.algorithm]} | 1 | **no** |" in page
    assert "1 of 105 runs" in page


def test_what_has_failed_is_told_and_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not chat_models.carry_out(Run("sums", "grpo", 0), tiny(), "tiny", tmp_path / "results.jsonl", rollouts=-5)
    assert not list(tmp_path.iterdir())
    assert "Traceback" in capsys.readouterr().err


def test_what_is_there_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = tmp_path / "results.jsonl"
    lines.write_text(json.dumps({"task": "sums", "algorithm": "grpo", "seed": 0, **cell(0.1, 0.9)}) + "\n")
    monkeypatch.setattr(chat_page, "PAGE", tmp_path / "page.md")
    written: list[Path] = []
    monkeypatch.setattr(chat_models, "write_page", written.append)
    words = ["--model", "nothing/there", "--only", "sums", "--algorithms", "grpo", "--seeds", "0", "--out", str(lines)]
    assert chat_models.main(words) == 0
    assert written == [lines]
