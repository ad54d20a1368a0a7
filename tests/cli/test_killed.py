"""A run that is killed in a rollout, between minibatches and in the middle of a checkpoint ends where an uninterrupted one does."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.thorough
@pytest.mark.parametrize("case", ["dcpo", pytest.param("curriculum", marks=pytest.mark.rare)])
def test_three_kills_change_nothing(case: str) -> None:
    words = [sys.executable, "-m", "benchmarks.faults.killtest", "--cases", case, "--kills", "3"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=400, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for kind in ("token", "minibatch", "file"):
        assert sum(kind in line and "same" in line for line in done.stdout.splitlines()) == 1
    assert "largest difference of a final weight 0;" in done.stdout
