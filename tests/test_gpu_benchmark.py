"""`make bench CASE=gpu` runs, here with a tiny policy on whatever device there is."""

import json
import subprocess
import sys

import pytest


@pytest.mark.thorough
def test_a_tiny_policy_is_measured(tmp_path):
    words = ["--shape", "tiny", "--rounds", "1", "--sides", "lightrl", "--out", str(tmp_path)]
    run = subprocess.run([sys.executable, "-m", "benchmarks.speed.gpu", *words], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    (found,) = json.loads((tmp_path / "summary.json").read_text())["sides"]["lightrl"]
    assert found["rollout_tokens_per_s"] > found["tokens_per_s"] > 0
    assert found["training_tokens_per_s"] > 0
    assert "| lightrl |" in (tmp_path / "table.md").read_text()
