"""DeepSpeed is imported by its strategies alone, and what it needs and does not find is said in two lines."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lightrl import TinyPolicy
from lightrl.strategies.deepspeed import ABANDONED_S, DeepSpeedNeedsError, ManualDeepSpeedStrategy, building_operators

OWN_SETTINGS = ["ManualDeepSpeedStrategy", "--trainer.strategy.stage", "3"]


@pytest.mark.parametrize("strategy", [["deepspeed_stage_2"], ["deepspeed_stage_3_offload"], OWN_SETTINGS])
@pytest.mark.parametrize("verb", ["check", "fit"])
def test_a_strategy_of_deepspeed_is_refused_without_it(
    lightrl: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, verb: str, strategy: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    answer = lightrl(verb, "--config", "run.yaml", "--trainer.strategy", *strategy)
    first, second = answer.lines
    assert answer.status == 2
    assert first.startswith(f"trainer.strategy: {strategy[0]} needs DeepSpeed")
    assert "pip install deepspeed" in second


def test_a_script_is_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    with pytest.raises(DeepSpeedNeedsError, match="pip install deepspeed"):
        ManualDeepSpeedStrategy(stage=2)


def test_other_runs_go_on_without_deepspeed(lightrl: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    answer = lightrl("fit", "--config", "run.yaml", "--rollouts", "1")
    assert answer.status == 0, answer.err


def test_a_policy_is_written_without_importing_deepspeed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "deepspeed", raising=False)
    TinyPolicy(hidden=16, layers=1).build().save(tmp_path)
    assert (tmp_path / "config.json").is_file()
    assert "deepspeed" not in sys.modules


@pytest.mark.parametrize(("compiler", "error"), [(sys.executable, RuntimeError), ("no-such-compiler", DeepSpeedNeedsError)])
def test_a_failed_build_names_the_compiler_only_if_there_is_none(
    monkeypatch: pytest.MonkeyPatch, compiler: str, error: type[Exception]
) -> None:
    monkeypatch.setenv("CXX", compiler)
    with pytest.raises(error) as raised, building_operators():
        raise RuntimeError("Error building extension")
    assert type(raised.value) is error


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="DeepSpeed is installed on Linux alone")
def test_a_run_without_a_compiler_says_so(write: Callable[..., Path], tmp_path: Path) -> None:
    words = ["fit", "--config", "run.yaml", "--trainer.strategy", "deepspeed_stage_2_offload"]
    environment = os.environ | {"CXX": "no-such-compiler", "TORCH_EXTENSIONS_DIR": str(tmp_path / "built")}
    done = subprocess.run(
        [sys.executable, "-m", "lightrl", *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "no 'no-such-compiler' on the path" in done.stderr


def test_a_killed_build_does_not_make_later_runs_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    killed, recent, goes_on = (tmp_path / folder / "lock" for folder in ("cpu_adam", "py311_cpu/recent", "py311_cpu/goes_on"))
    for lock in (killed, recent, goes_on):
        lock.parent.mkdir(parents=True)
        lock.touch()
    for lock in (killed, goes_on):
        os.utime(lock, times=(0, time.time() - ABANDONED_S - 60))
    with goes_on.open(), building_operators():
        assert [lock.exists() for lock in (killed, recent, goes_on)] == [False, True, True]
    assert str(recent) in caplog.text
    assert str(goes_on) not in caplog.text
