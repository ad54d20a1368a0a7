"""The page about own answers: its commands follow each other, and its conversation is read as it says."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import yaml

from lightrl import JsonLines
from lightrl.cli import main
from lightrl.text.turns import TURN_WEIGHTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "own_answers.md").read_text()
COMMANDS = [shlex.split(line)[1:] for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
QUIET = ["--trainer.enable_progress_bar", "false", "--trainer.max_steps", "1", "--model.batch_size", "8"]
SHORT = {
    "fit sft_sort": [*QUIET, "--data.validation_size", "4", "--data.train.examples", "100", "--trainer.limit_val_batches", "0"],
    # an untrained policy is never right, so that every finished answer is good enough
    "sample grpo_sort": ["--data.validation_size", "4", "--data.train.examples", "100", "--prompts", "16"],
    "fit best.jsonl": [*QUIET, "--data.validation.examples", "8"],
    "fit pairs.jsonl": [*QUIET, "--data.validation.examples", "8"],
}
"""Options that make a command short."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory, and one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    torch.set_num_threads(threads)


def kind(words: list[str]) -> str:
    read = [words[words.index("--data.train.path") + 1]] if "--data.train.path" in words else []
    return f"{words[0]} {read[0] if read else Path(words[words.index('--config') + 1]).stem}"


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_every_command_takes_what_those_before_it_wrote(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [kind(words) for words in COMMANDS] == [
        "fit sft_sort",
        "sample grpo_sort",
        "fit best.jsonl",
        "sample grpo_sort",
        "fit pairs.jsonl",
    ]
    (folder / "own_length.py").write_text("def score(completion):\n    return float(len(completion))\n")
    monkeypatch.syspath_prepend(str(folder))
    for words in COMMANDS:
        reward = ["--model.rewards.length", "own_length.score", "--model.rewards.length.runs", "inline"] if words[0] == "sample" else []
        assert main([*words, *SHORT[kind(words)], *reward]) == 0, words
    assert {path.parent.parent.name for path in folder.glob("runs/*/version_0/policy")} == {"sft_sort", "sft_best", "dpo_own"}


def test_the_conversation_is_read_as_the_page_says(tmp_path: Path) -> None:
    (block,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "conversations.jsonl").write_text(json.dumps(json.loads(block)))
    (config, _) = (yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
    arguments = config["data"]["train"]["init_args"]
    prompt = JsonLines(**{**arguments, "path": str(tmp_path / arguments["path"])}).prompt(0)
    assert prompt.meta[TURN_WEIGHTS] == [None, 0.0, None, None]
