"""A small config in an empty folder, and the command line called in-process."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

# its log handler keeps the stream that it finds when it is imported, and that of a test is closed after it
import lightning.pytorch  # noqa: F401
import pytest
import torch
import yaml

from lightrl.cli import main
from lightrl.hookspecs import GROUP
from lightrl.registry.classes import registry
from lightrl.registry.loader import load_plugin

CONFIG: dict[str, Any] = {
    "rollouts": 2,
    "trainer": {"accelerator": "cpu", "devices": 1, "enable_progress_bar": False, "enable_model_summary": False},
    "model": {
        "policy": {"class_path": "TinyPolicy", "init_args": {"hidden": 16, "layers": 1}},
        "algorithm": {
            "class_path": "GRPO",
            "init_args": {
                "sampler": {"class_path": "GroupSampler", "init_args": {"group_size": 4}},
                "clip": {"class_path": "SymmetricClip", "init_args": {"epsilon": 0.1}},
            },
        },
        "rewards": {"correct": "ExactMatch"},
        "engine": {"max_new_tokens": 8},
        "prompts_per_rollout": 4,
    },
    "data": {"train": {"class_path": "DigitSorting", "init_args": {"examples": 100}}, "validation_size": 8},
}


@dataclass
class Answer:
    """The status and output of a command."""

    status: int
    out: str
    err: str

    @property
    def config(self) -> dict[str, Any]:
        """The config that `--print_config` printed."""
        return yaml.safe_load(self.out)

    @property
    def lines(self) -> list[str]:
        """Lines on stderr."""
        return self.err.strip().splitlines()

    def at(self, key: str) -> Any:
        """The value at a key of the printed config, class_path and init_args passed over."""
        value: Any = self.config
        for name in key.split("."):
            value = value["init_args"][name] if isinstance(value, dict) and name not in value and "init_args" in value else value[name]
        return value


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Write YAML files into an empty working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name: str, content: Any) -> Path:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return path

    write("run.yaml", CONFIG)
    return write


@pytest.fixture
def config() -> dict[str, Any]:
    """A copy of the small config, to be changed."""
    return copy.deepcopy(CONFIG)


@pytest.fixture
def lightrl(write: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Answer]]:
    """Call the command line with these words."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def lightrl(*words: str) -> Answer:
        capsys.readouterr()
        status = main(words)
        captured = capsys.readouterr()
        return Answer(status, captured.out, captured.err)

    yield lightrl
    torch.set_num_threads(threads)


@pytest.fixture
def resolved(lightrl: Callable[..., Answer]) -> Callable[..., Answer]:
    """The resolved config of `run.yaml` with these overrides."""

    def resolved(*words: str) -> Answer:
        answer = lightrl("fit", "--config", "run.yaml", *words, "--print_config")
        assert answer.status == 0, answer.err
        return answer

    return resolved


ALGORITHMS = """
from typing import Any
from lightrl import DecoupledClip, GroupRelative, hookimpl

class Narrow(GroupRelative):
    clip = DecoupledClip(low=0.05, high=0.06)

class Wide(GroupRelative):
    clip = DecoupledClip(low=0.5, high=0.6)
    epochs = 2

@hookimpl
def lightrl_algorithms() -> list[type[Any]]:
    return [Narrow, Wide]
"""
"""A plugin with two algorithms that differ in their clips and epochs."""


@pytest.fixture
def throwaway(write: Callable[..., Path]) -> Iterator[None]:
    """The plugin `ALGORITHMS`, installed for the length of a test."""
    write("throwaway_algorithms.py", ALGORITHMS)
    record = load_plugin(EntryPoint("throwaway", "throwaway_algorithms", GROUP))
    assert record.error is None
    registry().records.append(record)
    yield
    registry().records.remove(record)
    del sys.modules["throwaway_algorithms"]
