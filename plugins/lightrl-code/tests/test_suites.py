"""Two hundred tasks: every reference passes, and no program that was made wrong by a mutation does."""

import json
from pathlib import Path
from typing import Any

import pytest
from lightrl_code import UnitTests

from lightrl import Prompt

FILES = sorted((Path(__file__).parent / "suites").glob("*.jsonl"))
TASKS = {f"{file.stem}: {task['name']}": task for file in FILES for task in map(json.loads, file.read_text().splitlines())}


def sampled(every: int) -> list[Any]:
    """All of them; most only thoroughly, and most of these rarely."""
    rare = [pytest.mark.thorough, pytest.mark.rare]
    marks = {at: [] if at % every == 0 else rare[:1] if at % 4 == 0 else rare for at in range(len(TASKS))}
    return [pytest.param(name, marks=marks[at]) for at, name in enumerate(TASKS)]


def scored(task: dict[str, Any], program: str, unsafe: bool) -> float:
    continues = bool(task.get("prompt"))
    reward = UnitTests(partial=False, limit_s=5.0, continues=continues, unsafe=unsafe)
    prompt = Prompt(id=task["name"], text=task.get("prompt", "?"))
    return reward.score(prompt, program, tests=task["tests"], entry_point=task.get("entry_point"))


def passes(task: dict[str, Any], program: str, unsafe: bool) -> float:
    """The score of a wrong program; 0 where its answer keeps a test from reaching its asserts, and the row fails."""
    try:
        return scored(task, program, unsafe)
    except ValueError:
        return 0.0


def test_there_are_two_hundred_tasks_with_wrong_programs() -> None:
    assert len(TASKS) >= 200
    assert sum(len(task["wrong"]) for task in TASKS.values()) > 400


@pytest.mark.parametrize("name", sampled(every=20))
def test_a_reference_passes_and_mutants_do_not(name: str, sandbox_trouble: str) -> None:
    task, unsafe = TASKS[name], bool(sandbox_trouble)
    assert scored(task, task["program"], unsafe) == 1.0
    for line, changed in task["wrong"]:
        lines = task["program"].split("\n")
        lines[line] = changed
        assert passes(task, "\n".join(lines), unsafe) == 0.0, changed
