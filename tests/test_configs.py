"""Every config in `configs/` says what it is, can be parsed, and takes a step on a CPU."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lightrl_workshop.verbs.config_step import one_step

from lightrl.config.merge.resolve import resolve
from lightrl.config.read.settings import read_words
from tests.config_kinds import KINDS

FILES = sorted((Path(__file__).parent.parent / "configs").rglob("*.yaml"))
each_config = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


@each_config
def test_the_head_says_what_it_does_how_to_run_it_and_what_it_was_tested_on(file: Path) -> None:
    head = [line.removeprefix("#").strip() for line in file.read_text().splitlines() if line.startswith("#")]
    assert len(head[0].split()) > 5, f"{file.name} opens with a sentence that says what it does"
    commands = [line for line in head if line.startswith("lightrl ")]
    assert any(f"--config {file.stem}" in command for command in commands), f"{file.name} has a lightrl command that names it"
    assert any(line.startswith("Tested on:") for line in head), f"{file.name} says what it was tested on"


@each_config
def test_every_key_and_name_is_known(file: Path) -> None:
    resolved = resolve("fit", read_words(["--config", str(file)]))
    assert resolved.rollouts.ends
    assert resolved.notes == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "file", [file if file.stem in KINDS else pytest.param(file, marks=pytest.mark.thorough) for file in FILES], ids=lambda file: file.stem
)
def test_a_rollout_and_its_steps_on_a_cpu(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert one_step(file) >= 1


def test_there_are_configs() -> None:
    assert {file.stem for file in FILES} >= {"grpo", *KINDS}
    assert all(re.fullmatch(r"[a-z0-9_]+", file.stem) for file in FILES)
