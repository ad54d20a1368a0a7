"""`make gpuday` runs what can run without a GPU, names the rest, and goes on after a failure."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

NEEDS_A_GPU = {"tests", "decode", "flex", "learning", "memory", "vllm"}


def lines_of(folder: Path, *words: str) -> tuple[int, dict[str, dict[str, object]]]:
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.evidence.gpu_day", "--cpu", "--out", str(folder), *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (folder / "gpu_day.json").exists(), run.stdout + run.stderr
    said = json.loads((folder / "gpu_day.json").read_text())
    assert said["device"] == "CPU"
    assert said["versions"]["torch"]
    page = (folder / "gpu_day.md").read_text()
    assert all(f"| {line['name']} | {line['verdict']}" in page for line in said["lines"])
    return run.returncode, {line["name"]: line for line in said["lines"]}


@pytest.mark.thorough
@pytest.mark.rare
def test_all_that_a_cpu_can_show_is_shown(tmp_path: Path) -> None:
    status, lines = lines_of(tmp_path)
    assert {name for name, line in lines.items() if line["verdict"] == "not run"} == NEEDS_A_GPU
    assert {name: line["wrong"] for name, line in lines.items() if line["verdict"] == "failed"} == {}
    assert status == 0


@pytest.mark.thorough
@pytest.mark.rare
def test_a_line_that_fails_is_noted_and_the_next_one_runs(tmp_path: Path) -> None:
    # a file in place of the folder in which the line writes
    (tmp_path / "torchrun").mkdir()
    (tmp_path / "torchrun" / "first.txt").mkdir()
    status, lines = lines_of(tmp_path, "--only", "torchrun", "decode", "environment")
    assert status == 1
    assert [line["verdict"] for line in lines.values()] == ["failed", "not run", "passed"]
    assert "status 1" in lines["torchrun"]["wrong"][0]
    assert lines["decode"]["wrong"] == ["needs a GPU"]
