"""The first reward of a new user: a function in a file beside the config, which works as typed or ends the run at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

REWARDS = """
from limits import LIMIT

def short(completion: str) -> float:
    return max(0.0, 1 - len(completion) / LIMIT)

def mistyped(completion: str) -> float:
    return max(0.0, 1 - lenn(completion) / LIMIT)

def sometimes(completion: str) -> float:
    if len(completion) % 2:
        raise ArithmeticError("not my day")
    return 1.0

def silent(completion: str) -> None:
    return None
"""


def files(write: Callable[..., Path]) -> None:
    write("limits.py", "LIMIT = 400\n")
    write("my_rewards.py", REWARDS)


@pytest.mark.thorough
def test_a_reward_beside_the_config_works_as_typed(write: Callable[..., Path], tmp_path: Path) -> None:
    files(write)
    command = [str(Path(sys.executable).with_name("lightrl")), "fit", "--config", "run.yaml", "--model.rewards.short", "my_rewards.short"]
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "import path: my_rewards.short" in done.stderr
    assert "failed on" not in done.stderr


def test_a_reward_that_never_works_ends_the_run_in_its_first_rollout(
    lightrl: Callable[..., Any], write: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    files(write)
    words = ["--model.rewards.short", "my_rewards.mistyped", "--model.evaluation.before_training", "false"]
    answer = lightrl("fit", "--config", "run.yaml", *words)
    assert answer.status == 1
    assert (answer.err + caplog.text).count("name 'lenn' is not defined") == 1
    why, advice = answer.lines[-2:]
    assert why.startswith("model.rewards.short failed on every row of its first rollout: NameError: name 'lenn' is not defined (")
    assert advice.startswith("Mend it and start again")
    assert "Traceback" not in answer.err
    assert "1 rollouts" not in answer.err


def test_a_reward_that_may_always_fail_ends_no_run(lightrl: Callable[..., Any], write: Callable[..., Path]) -> None:
    files(write)
    short = {"path": "my_rewards.mistyped", "max_error_rate": 1.0}
    answer = lightrl("fit", "--config", "run.yaml", "--model.rewards.short", str(short))
    assert answer.status == 1
    assert answer.lines[-2] == "nothing was learnt: every update of 2 rollouts was skipped."


def test_a_spent_error_budget_ends_in_plain_lines(lightrl: Callable[..., Any], write: Callable[..., Path]) -> None:
    files(write)
    short = {"path": "my_rewards.sometimes", "max_error_rate": 0.1, "error_window": 16}
    answer = lightrl("fit", "--config", "run.yaml", "--model.rewards.short", str(short))
    assert answer.status == 1
    assert "Traceback" not in answer.err
    assert "reward 'short' failed on" in answer.err
    assert answer.lines[-1].endswith("or give it the weight 0")


def test_a_run_without_any_update_fails_and_says_why(lightrl: Callable[..., Any], write: Callable[..., Path]) -> None:
    files(write)
    answer = lightrl("fit", "--config", "run.yaml", "--model.rewards.correct", "my_rewards.silent")
    assert answer.status == 1
    what, why = answer.lines[-2:]
    assert what == "nothing was learnt: every update of 2 rollouts was skipped."
    assert why.startswith("Of the last completions 100% had no score")
    assert "Checkpoint: runs/run/version_0" in answer.err


def test_a_reward_without_a_return_beside_another_is_told_once(
    lightrl: Callable[..., Any], write: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    files(write)
    answer = lightrl("fit", "--config", "run.yaml", "--model.rewards.short", "my_rewards.silent")
    assert answer.status == 0
    assert caplog.text.count("reward 'short' has abstained on each of its first 8 rows") == 1
    assert "a function without `return` gives None" in caplog.text
    assert "reward 'correct' has abstained" not in caplog.text


def test_a_resumed_run_with_nothing_left_to_do_ends_well(lightrl: Callable[..., Any]) -> None:
    assert lightrl("fit", "--config", "run.yaml").status == 0
    again = lightrl("fit", "--config", "run.yaml", "--ckpt_path", "last")
    assert again.status == 0, again.err
    assert again.lines[-1] == "Nothing was left to do: the checkpoint is at the end of the run."


def test_a_module_with_a_mistake_is_refused_without_a_traceback(lightrl: Callable[..., Any], write: Callable[..., Path]) -> None:
    write("mistaken.py", "def broken(:\n")
    answer = lightrl("check", "--config", "run.yaml", "--model.rewards.short", "mistaken.score")
    assert answer.status == 2
    assert answer.lines[-1].endswith("cannot be imported: SyntaxError: invalid syntax (mistaken.py, line 1)")
