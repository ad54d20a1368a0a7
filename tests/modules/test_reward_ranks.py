"""Two processes that train a reward model say and write what one does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

SCRIPT = Path(__file__).parent / "reward_ranks.py"


def trained(strategy: str, folder: Path) -> Path:
    command = [sys.executable, str(SCRIPT), strategy, str(folder / strategy)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / strategy


@pytest.mark.slow
def test_two_processes_say_and_write_what_one_does(tmp_path: Path) -> None:
    one, two = trained("auto", tmp_path), trained("ddp", tmp_path)
    expected, found = load_file(one / "model.safetensors"), load_file(two / "model.safetensors")
    assert found.keys() == expected.keys()
    for name, weight in expected.items():
        assert float((found[name] - weight).abs().max()) <= 1e-6, name
    numbers, theirs = json.loads(one.with_suffix(".json").read_text()), json.loads(two.with_suffix(".json").read_text())
    assert {"loss", "accuracy", "val/loss", "val/accuracy", "val/margin", "val/score/std", "val/calibration/error"} <= numbers[-1].keys()
    assert numbers[0]["score/mean"] != pytest.approx(numbers[-1]["score/mean"], abs=1e-3)
    for mine, other in zip(numbers, theirs, strict=True):
        assert other == pytest.approx(mine, abs=1e-5)
