"""Two ranks, of which one has three of four groups, take the steps of one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch


def steps(ranks: int, file: Path) -> dict[str, torch.Tensor]:
    script = Path(__file__).with_name("moe_step.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1"}
    command = [sys.executable, script, str(ranks), file]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, torch.Tensor] = torch.load(file, weights_only=True)
    return found


@pytest.mark.thorough
def test_one_and_two_ranks_take_the_same_steps(tmp_path: Path) -> None:
    one, two = (steps(ranks, tmp_path / f"{ranks}.pt") for ranks in (1, 2))
    assert float(one.pop("rerouted")) == pytest.approx(float(two.pop("rerouted")), abs=1e-6)
    largest = max(float(change.abs().max()) for change in one.values())
    assert largest > 1e-4
    assert max(float((one[name] - two[name]).abs().max()) for name in one) <= 1e-10 * largest
