"""Weights & Biases and MLflow get numbers, config, completions and alarms, offline (`make test WITH=loggers`)."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lightrl.cli import main

wandb = pytest.importorskip("wandb")
mlflow = pytest.importorskip("mlflow")

BLOCK, FULL, LAST = 32768, 1, 4
"""Bytes of a block of such a file, and the kinds of pieces that end a record."""
RUN: dict[str, Any] = {
    "rollouts": 6,
    "trainer": {
        "accelerator": "cpu",
        "devices": 1,
        "enable_progress_bar": False,
        "callbacks": [
            {"class_path": "CompletionsLog", "init_args": {"every_n_rollouts": 3, "rows": 4}},
            {"class_path": "Alarms", "init_args": {"truncation": 0.01}},
        ],
    },
    "model": {
        "policy": {"class_path": "TinyPolicy", "init_args": {"hidden": 8, "layers": 1, "heads": 2}},
        "algorithm": {"class_path": "GRPO", "init_args": {"sampler": {"class_path": "GroupSampler", "init_args": {"group_size": 4}}}},
        "rewards": {"correct": "ExactMatch", "small": "lightrl_workshop.toy.small_digits"},
        "engine": {"max_new_tokens": 2},
        "prompts_per_rollout": 4,
    },
    "data": {"train": {"class_path": "DigitSorting", "init_args": {"examples": 40}}},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(RUN))
    return tmp_path


def records(file: Path) -> Iterator[Any]:
    """The records of the file that W&B writes offline: a log of LevelDB's form, after a header of 7 bytes."""
    from wandb.proto import wandb_internal_pb2

    data, place, whole = file.read_bytes(), 7, b""
    while place + 7 <= len(data):
        if BLOCK - place % BLOCK < 7:
            place += BLOCK - place % BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", data[place : place + 7])
        whole += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (FULL, LAST):
            yield wandb_internal_pb2.Record.FromString(whole)
            whole = b""


def complete(file: Path) -> list[Any]:
    """All records, once the process of W&B that writes them has written the last one."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        found = list(records(file))
        if any(record.WhichOneof("record_type") == "exit" for record in found):
            return found
        time.sleep(0.1)
    raise AssertionError("the file has no end")


def test_wandb_has_tables_texts_config_and_the_algorithm(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--trainer.logger", "WandbLogger", "--trainer.logger.offline", "true"]
    assert main(["fit", "--config", "small.yaml", *words]) == 0
    wandb.finish()
    [file] = folder.glob("runs/wandb/offline-run-*/*.wandb")
    written = complete(file)
    assert {record.run.display_name for record in written if record.WhichOneof("record_type") == "run"} == {"small"}
    assert "GRPO" in {tag for record in written for tag in record.run.tags}
    assert "model.algorithm.class_path" in {item.key or item.nested_key[0] for record in written for item in record.config.update}
    keys = {item.key or item.nested_key[0] for record in written for item in record.history.item}
    assert {"reward", "texts/completions", "texts/alarms/truncation", "texts/run/algorithm", "alarms/truncation"} <= keys
    tables = [json.loads(path.read_text()) for path in folder.glob("runs/wandb/offline-run-*/files/media/table/texts/completions*.json")]
    assert [table["columns"] for table in tables] == [
        [
            "step", "prompt", "completion", "finish", "tokens", "correct: score", "correct: brings", "small: score", "small: brings",
            "reward", "advantage",
        ]
    ] * 2  # fmt: skip
    assert all(len(table["data"]) == 4 and isinstance(table["data"][0][5], int | float) for table in tables)
    said = capsys.readouterr().err
    assert "Log: Weights & Biases, run small: runs/wandb/offline-run-" in " ".join(said.split())
    assert list(folder.glob("runs/small/*/checkpoints/rollout=6.ckpt"))
    assert list(folder.glob("runs/small/*/config.yaml"))
    # the same command goes on from there
    more = ["--rollouts", "7", "--ckpt_path", "last"]
    assert main(["fit", "--config", "small.yaml", *words, *more]) == 0
    wandb.finish()


def test_mlflow_has_tables_texts_config_and_the_algorithm(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "--config", "small.yaml", "--trainer.logger", "MLFlowLogger"]) == 0
    client = mlflow.MlflowClient(f"sqlite:///{folder / 'runs' / 'mlflow.db'}")
    [experiment] = [one for one in client.search_experiments() if one.name == "lightrl"]
    [run] = client.search_runs([experiment.experiment_id], filter_string="tags.algorithm = 'GRPO'")
    assert run.info.run_name == "small"
    assert run.data.tags["mlflow.note.content"].startswith("**GRPO**")
    assert run.data.params["model.prompts_per_rollout"] == "4"
    assert "reward" in run.data.metrics
    artifacts = folder / "runs" / "mlflow" / run.info.run_id / "artifacts"
    table = json.loads((artifacts / "completions.json").read_text())
    assert table["columns"][:4] == ["step", "prompt", "completion", "finish"]
    assert [row[0] for row in table["data"]] == [1] * 4 + [4] * 4
    assert "**Rollout 5:**" in (artifacts / "alarms" / "truncation" / "4.md").read_text()
    assert (artifacts / "run" / "config" / "0.md").read_text().startswith("```yaml")
    said = " ".join(capsys.readouterr().err.split())
    assert "Downloading artifacts" not in said
    assert "special characters in metric name" not in said
    assert "Log: MLflow, run small Watch: mlflow ui --backend-store-uri sqlite:" in said
    assert list(folder.glob("runs/small/*/checkpoints/rollout=6.ckpt"))
