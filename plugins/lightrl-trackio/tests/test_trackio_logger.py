"""Trackio gets numbers, hyper-parameters, texts, tables and alarms of a run (`make test WITH=loggers`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trackio")

RUN: dict[str, Any] = {
    "rollouts": 5,
    "trainer": {
        "accelerator": "cpu",
        "devices": 1,
        "enable_progress_bar": False,
        "logger": "lightrl_trackio.TrackioLogger",
        "callbacks": [
            {"class_path": "CompletionsLog", "init_args": {"every_n_rollouts": 2, "rows": 4}},
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
def trackio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Trackio with a database of its own: it reads where that is when it is imported."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "trackio"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    for name in [name for name in os.environ if name in ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL", "TRACKIO_WEBHOOK_URL")]:
        monkeypatch.delenv(name)
    import trackio

    return trackio


def test_a_run_is_read_back_and_goes_on_in_the_same_one(lightrl: Callable[..., Any], write: Callable[..., Path], trackio: Any) -> None:
    from trackio.sqlite_storage import SQLiteStorage

    write("small.yaml", RUN)
    answer = lightrl("fit", "--config", "small.yaml")
    assert answer.status == 0, answer.err
    assert "Watch: trackio show --project lightrl" in answer.err
    assert "Trackio" not in answer.out
    [run] = trackio.Api().runs("lightrl")
    assert run.name.startswith("small-")
    assert list(Path("runs/small").glob(f"{run.name.removeprefix('small-')}/checkpoints/rollout=5.ckpt"))
    assert run.config["model.prompts_per_rollout"] == 4
    assert run.config["model.algorithm.class_path"].endswith("GRPO")

    def rows(name: str) -> list[tuple[int, Any]]:
        return [(row["step"], row["value"]) for row in SQLiteStorage.get_metric_values("lightrl", run.name, name)]

    assert [step for step, _ in rows("reward")] == [1, 2, 3, 4, 5]
    assert all(isinstance(value, float) for _, value in rows("reward"))
    [(step, text)] = rows("texts/run/algorithm")
    assert step == 0
    assert text["_type"] == "trackio.markdown"
    assert text["_value"].startswith("**GRPO**")
    tables = rows("texts/completions")
    assert [step for step, _ in tables] == [1, 3, 5]
    assert [len(table["_value"]) for _, table in tables] == [4, 4, 4]
    assert {"prompt", "completion", "correct: score", "advantage"} <= tables[0][1]["_value"][0].keys()
    [alarm] = [alarm for alarm in run.alerts() if alarm["title"] == "truncation"]
    assert alarm["level"] == "warn"
    assert alarm["text"].startswith(f"**Rollout {alarm['step'] + 1}:**") or alarm["text"].startswith(f"**Rollout {alarm['step']}:**")
    assert rows("alarms/truncation")[0][1] == 1.0
    # from the last checkpoint the run goes on
    assert lightrl("fit", "--config", "small.yaml", "--rollouts", "7", "--ckpt_path", "last").status == 0
    assert [one.name for one in trackio.Api().runs("lightrl")] == [run.name]
    assert [step for step, _ in rows("reward")] == [1, 2, 3, 4, 5, 6, 7]
    # another run is another one
    assert lightrl("fit", "--config", "small.yaml", "--rollouts", "1").status == 0
    assert len(list(trackio.Api().runs("lightrl"))) == 2


@pytest.mark.parametrize("name", ["TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL", "TRACKIO_WEBHOOK_URL"])
def test_the_environment_sends_nothing_away(
    name: str, lightrl: Callable[..., Any], write: Callable[..., Path], trackio: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "http://127.0.0.1:9/?write_token=secret")
    write("small.yaml", RUN)
    answer = lightrl("fit", "--config", "small.yaml")
    assert answer.status == 2
    assert f"{name} would send the run away" in answer.err
    assert "secret" not in answer.err
