"""`lightrl fit --ckpt_path last`: where it looks, where it goes on, what it reports and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

Command = Callable[..., Any]


@pytest.fixture
def trained(lightrl: Command) -> None:
    """A run of two rollouts."""
    answer = lightrl("fit", "--config", "run.yaml")
    assert answer.status == 0, answer.err


def test_without_a_checkpoint_it_says_where_it_looked(lightrl: Command) -> None:
    answer = lightrl("fit", "--config", "run.yaml", "--ckpt_path", "last")
    assert answer.status == 2
    assert answer.lines[0].startswith("ckpt_path: there is no checkpoint below 'runs/run'")


def test_with_another_algorithm_it_names_the_checkpoint_of_the_configs_own(lightrl: Command) -> None:
    assert lightrl("fit", "--config", "run.yaml", "--model.algorithm.kl", "null").status == 0
    answer = lightrl("fit", "--config", "run.yaml", "--ckpt_path", "last", "--model.algorithm", "DrGRPO", "--rollouts", "4")
    assert answer.status == 2
    assert "there is no checkpoint below 'runs/run_DrGRPO', so there is no last one of this algorithm" in answer.lines[0]
    named = answer.lines[1].rpartition(" ")[2]
    assert lightrl("fit", "--config", "run.yaml", "--ckpt_path", named, "--model.algorithm", "DrGRPO", "--rollouts", "4").status == 0


def test_a_resumed_run_goes_on_in_its_folder_with_one_curve(lightrl: Command, trained: None, tmp_path: Path) -> None:
    answer = lightrl("fit", "--config", "run.yaml", "--ckpt_path", "last", "--rollouts", "4")
    assert answer.status == 0, answer.err
    assert [path.name for path in (tmp_path / "runs" / "run").iterdir()] == ["version_0"]
    events = EventAccumulator(str(tmp_path / "runs" / "run" / "version_0"))
    events.Reload()
    assert [event.step for event in events.Scalars("reward")] == [1, 2, 3, 4]
    assert "rollouts" in answer.err
    assert "Resumed with differences" in answer.err


def test_a_run_resumed_as_it_was_reports_nothing(lightrl: Command, config: dict[str, Any], write: Command, trained: None) -> None:
    answer = lightrl("fit", "--config", "run.yaml", "--ckpt_path", "last")
    assert answer.status == 0, answer.err
    assert "Resumed with differences" not in answer.err


def test_an_earlier_checkpoint_starts_a_branch_of_its_own(lightrl: Command, tmp_path: Path) -> None:
    saver = '{"class_path": "ModelCheckpoint", "init_args": {"save_top_k": -1}}'
    assert lightrl("fit", "--config", "run.yaml", "--trainer.callbacks", f"[{saver}]").status == 0
    first = next((tmp_path / "runs").rglob("epoch=0*.ckpt"))
    assert lightrl("fit", "--config", "run.yaml", "--ckpt_path", str(first)).status == 0
    assert sorted(path.name for path in (tmp_path / "runs" / "run").iterdir()) == ["version_0", "version_1"]


def test_what_differs_is_a_table_and_training_goes_on(lightrl: Command, trained: None) -> None:
    words = ["--rollouts", "3", "--model.prompts_per_rollout", "6"]
    answer = lightrl("fit", "--config", "run.yaml", "--ckpt_path", "last", *words)
    rows = {line.split()[0]: line.split()[1:] for line in answer.lines if len(line.split()) == 3}
    assert rows["model.prompts_per_rollout"] == ["4", "6"], answer.err
    assert rows["rollouts"] == ["2", "3"]


def test_other_prompts_are_refused_unless_allowed(lightrl: Command, trained: None) -> None:
    words = ["fit", "--config", "run.yaml", "--ckpt_path", "last", "--rollouts", "3", "--data.train.examples", "90"]
    refused = lightrl(*words)
    assert refused.status == 2
    assert len(refused.lines) <= 3
    assert "--data.other_prompts restart" in refused.err
    with pytest.warns(UserWarning, match="order"):
        allowed = lightrl(*words, "--data.other_prompts", "restart")
    assert allowed.status == 0, allowed.err


def test_the_provenance_names_versions_plugins_and_ranks(trained: None, tmp_path: Path) -> None:
    kept = torch.load(next((tmp_path / "runs").rglob("*.ckpt")), weights_only=True)["provenance"]
    assert kept["ranks"] == 1
    assert kept["version of torch"] == version("torch")
    assert "plugin lightrl-grpo" in kept
    assert kept["model.algorithm.class_path"].endswith("GRPO")
    assert kept["data (prompts)"] == 92
