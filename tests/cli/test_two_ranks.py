"""`lightrl fit` in two processes: what stops one of them stops both, and says why."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

REWARD = """
import torch

def fails_on_one_rank(completion):
    if torch.distributed.get_rank() == 1:
        raise ArithmeticError("no luck here")
    return float(len(completion))
"""


@pytest.mark.thorough
def test_failures_beyond_the_budget_on_one_rank_stop_all(write: Callable[..., Path], config: dict[str, Any], tmp_path: Path) -> None:
    write("unlucky.py", REWARD)
    reward = {"path": "unlucky.fails_on_one_rank", "runs": "inline", "error_window": 12}
    config["rollouts"] = 1000
    config["model"]["rewards"] = {"luck": reward}
    config["trainer"] |= {"devices": 2, "strategy": "ddp"}
    write("two.yaml", config)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(tmp_path), "MASTER_ADDR": "127.0.0.1"}
    environment.pop("LOCAL_RANK", None)
    words = [sys.executable, "-m", "lightrl", "fit", "--config", "two.yaml"]
    run = subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert run.stderr is not None
    said, first = "", 0.0
    for line in run.stderr:
        said += line
        if not first and "no luck here" in line:
            first = time.monotonic()
    status = run.wait(120)
    assert status not in (0, 124), said
    complaint = r"reward 'luck' failed on \d+ of the last \d+ completions \(more than 6 are not allowed\):\n.*prompt 'sort6:\d+': Arithm"
    # what the first process says is what one sees of a run
    assert re.search(r"rank 0, rollout 1, phase reward failed: RunEndedError: on another rank, " + complaint, said), said
    assert "Traceback" not in said, "a run that had to end says why, in few lines"
    assert first
    assert time.monotonic() - first < 20, "every process has ended soon after the first failures"
