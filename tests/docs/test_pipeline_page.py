"""The way from demonstrations to a policy can be gone as the page says, each step from the folders of those before."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from lightrl.cli import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "pipeline.md").read_text()
LINES = [shlex.split(line) for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
COMMANDS = [words[1:] for words in LINES if words[0] == "lightrl"]
ONE_THREAD = ["--trainer.enable_progress_bar", "false", "--data.validation_size", "4", "--data.train.examples", "200"]
SHORT = {
    "sft_sort": ["--trainer.max_steps", "1"],
    "reward_model_sort": ["--trainer.max_steps", "1", "--model.batch_size", "8"],
    "ppo_reward_model_sort": ["--rollouts", "1", "--model.prompts_per_rollout", "8"],
    "dpo_sort": ["--trainer.max_steps", "1", "--model.batch_size", "8"],
}
"""Options that make a step of the way short, by its config."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory, and one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    torch.set_num_threads(threads)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_every_step_takes_what_the_steps_before_it_wrote(folder: Path) -> None:
    names = [Path(words[words.index("--config") + 1]).stem for words in COMMANDS]
    assert names == list(SHORT)
    for name, words in zip(names, COMMANDS, strict=True):
        assert main([*words, *ONE_THREAD, *SHORT[name]]) == 0, words
    written = re.findall(r"writes `(runs/[a-z_0-9/]+)`", PAGE)
    assert len(written) == 2
    assert all((folder / path / "model.safetensors").is_file() for path in written)


def test_the_commands_behind_its_numbers_are_there(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    others = [words for words in LINES if words[0] != "lightrl"]
    assert others
    for words in others:
        if words[0] == "make":
            assert words[1:3] == ["learn", "TASK=preferences"]
            arguments = shlex.split(words[3].removeprefix("ARGS="))
            script = ["benchmarks.learning.preferences", *arguments, "--help"]
        else:
            assert words[:3] == ["OMP_NUM_THREADS=1", "python", "-m"]
            script = [words[3], "--help"]
        monkeypatch.setattr(sys, "argv", script)
        with pytest.raises(SystemExit) as ended:
            runpy.run_module(script[0], run_name="__main__")
        assert ended.value.code == 0
        assert set(re.findall(r" (--[a-z]+)", " ".join(words))) <= set(re.findall(r"--[a-z]+", capsys.readouterr().out))
