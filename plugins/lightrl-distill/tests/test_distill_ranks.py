"""Two ranks take the step of one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from lightrl_workshop import assert_same_gradient

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from distill_step import gradient  # noqa: E402


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:the engine.s log-probs")
def test_one_and_two_ranks_take_the_same_step(tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1"}
    command = [sys.executable, HERE / "distill_step.py", "2", tmp_path / "gradient.pt"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert_same_gradient(gradient(1), torch.load(tmp_path / "gradient.pt"))
