"""The page about recorded rollouts: its commands work on a run as it describes one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "replay.md").read_text()
COMMANDS = [shlex.split(line)[1:] for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
FILES = re.findall(r"^\| `([^`]+\.[a-z]+)` \|", PAGE.partition("## What is in a record")[2], re.MULTILINE)
CLIP = {"class_path": "DecoupledClip", "init_args": {"low": 0.2, "high": 0.28}}


@pytest.mark.thorough
def test_its_commands_work_on_a_record_with_the_files_that_it_names(
    lightrl: Callable[..., Any], write: Callable[..., Path], config: dict[str, Any], tmp_path: Path
) -> None:
    fit, *others = COMMANDS
    config["rollouts"] = 1
    config["model"]["algorithm"]["init_args"]["clip"] = CLIP
    config["model"]["rewards"]["small"] = {"class_path": "Function", "init_args": {"path": "lightrl_workshop.toy.small_digits"}}
    write("grpo_sort.yaml", config)
    recorded = lightrl(*[{"grpo_sort": "grpo_sort.yaml"}.get(word, word) for word in fit])
    assert recorded.status == 0, recorded.err
    folder = tmp_path / "runs/grpo_sort/version_0/records/rollout=1"
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    for words in others:
        answer = lightrl(*[{"grpo_sort": "grpo_sort.yaml"}.get(word, word) for word in words])
        assert answer.status == 0, (words, answer.out, answer.err)
