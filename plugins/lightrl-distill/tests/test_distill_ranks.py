"""Two ranks take the step of one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch


def step(ranks: int, file: Path) -> dict[str, torch.Tensor]:
    script = Path(__file__).with_name("distill_step.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1"}
    command = [sys.executable, script, str(ranks), file]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return torch.load(file, weights_only=True)


@pytest.mark.slow
def test_one_and_two_ranks_take_the_same_step(tmp_path: Path) -> None:
    one, two = (step(ranks, tmp_path / f"{ranks}.pt") for ranks in (1, 2))
    largest = max(float(change.abs().max()) for change in one.values())
    assert largest > 1e-4
    assert max(float((one[name] - two[name]).abs().max()) for name in one) <= 1e-10 * largest
