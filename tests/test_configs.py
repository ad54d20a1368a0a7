"""Every config in `configs/` says what it is, can be parsed, and takes a step on a CPU."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from lightrl.cli.choice import Choice
from lightrl.cli.resolve import Resolved, resolve
from lightrl.cli.run import build
from lightrl.cli.settings import read_words

FILES = sorted((Path(__file__).parent.parent / "configs").glob("*.yaml"))
TINY = {
    "trainer": {"accelerator": "cpu", "devices": 1, "enable_progress_bar": False, "enable_checkpointing": False, "logger": False},
    "model": {
        "policy": {"class_path": "TinyPolicy", "init_args": {"hidden": 16, "layers": 1}},
        "rewards": {"correct": {"class_path": "Function", "init_args": {"path": "parity.parity"}}},
        "engine": {"class_path": "TransformersEngine", "init_args": {"max_new_tokens": 4}},
    },
    # with answers, and with a better and a worse one
    "data": {"train": {"class_path": "SortedPairs", "init_args": {"length": 3, "examples": 200}}, "validation_size": 2},
}
"""What replaces the parts of a config that need files, models or time."""
PARITY = "def parity(completion):\n    return sum(map(ord, completion)) % 2\n"
"""A reward that differs within a group of any policy, so that no sampler draws in vain."""

each_config = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


@each_config
def test_the_head_says_what_it_does_how_to_run_it_and_what_it_was_tested_on(file: Path) -> None:
    head = [line.removeprefix("#").strip() for line in file.read_text().splitlines() if line.startswith("#")]
    assert len(head[0].split()) > 5, f"{file.name} opens with a sentence that says what it does"
    commands = [line for line in head if line.startswith("lightrl ")]
    assert any(f"configs/{file.name}" in command for command in commands), f"{file.name} has a lightrl command that names it"
    assert any(line.startswith("Tested on:") for line in head), f"{file.name} says what it was tested on"


@each_config
def test_every_key_and_name_is_known(file: Path) -> None:
    resolved = resolve("fit", read_words(["--config", str(file)]))
    assert resolved.rollouts.given
    assert resolved.notes == []


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with the reward alone, and one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "parity.py").write_text(PARITY)
    yield tmp_path
    torch.set_num_threads(threads)


@pytest.mark.filterwarnings("ignore")
@each_config
def test_a_rollout_and_its_steps_on_a_cpu(file: Path, folder: Path) -> None:
    resolved = resolve("fit", read_words(["--config", str(file)]))
    tiny = folder / "tiny.yaml"
    model = {key: value for key, value in TINY["model"].items() if key in resolved.model.takes}
    tiny.write_text(yaml.safe_dump({**TINY, "model": model, "data": {**TINY["data"], "train": _small(resolved.data.value("train"))}}))
    words = ["--config", str(file), "--config", str(tiny), *_shortest(resolved)]
    trainer = build("fit", resolve("fit", read_words(words)), run=True).trainer
    assert trainer.state.finished
    assert trainer.global_step >= 1


def _small(source: Choice) -> dict[str, Any]:
    """Short prompts, in the form that the source gives to what another one has."""
    train: dict[str, Any] = TINY["data"]["train"]
    return {"class_path": source.cls.__name__, "init_args": {"source": train}} if "source" in source.takes else train


def _shortest(resolved: Resolved) -> list[str]:
    """Options that leave one short rollout of a policy optimisation, or one step of another module."""
    rewards = resolved.model.value("rewards") if "rewards" in resolved.model.takes else {}
    removed = [f"--model.rewards.{name}=null" for name in rewards if name != "correct"]
    removed += ["--data.validation=null"] if resolved.data.value("validation") is not None else []
    if "algorithm" not in resolved.model.takes:
        return [*removed, "--trainer.max_steps=1", "--trainer.callbacks=[]"]
    algorithm: Choice = resolved.model.value("algorithm")
    steps = int(algorithm.value("minibatches"))
    critic = algorithm.value("critic")
    removed += ["--model.algorithm.critic.path=null"] if critic is not None and "path" in critic.takes else []
    group = min(int(algorithm.value("sampler").value("group_size")), 2)
    ours = [f"--model.prompts_per_rollout={steps}", f"--model.algorithm.sampler.group_size={group}", "--model.algorithm.epochs=1"]
    return [*removed, "--rollouts=1", "--trainer.callbacks=[]", *ours]


def test_there_are_configs() -> None:
    assert {file.stem for file in FILES} >= {"grpo", "grpo_sort", "sft_sort"}
    assert all(re.fullmatch(r"[a-z0-9_]+", file.stem) for file in FILES)
