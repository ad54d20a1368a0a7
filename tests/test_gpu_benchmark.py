"""`make bench CASE=gpu` runs, here with a tiny policy on whatever device there is."""

import json
import subprocess
import sys

import pytest


@pytest.mark.thorough
def test_a_tiny_policy_is_measured(tmp_path):
    words = ["--shape", "tiny", "--rounds", "1", "--sides", "lightrl", "lightrl_no_graphs", "--out", str(tmp_path)]
    run = subprocess.run([sys.executable, "-m", "benchmarks.speed.gpu", *words], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    sides = json.loads((tmp_path / "summary.json").read_text())["sides"]
    for side in ("lightrl", "lightrl_no_graphs"):
        (found,) = sides[side]
        assert found["rollout_tokens_per_s"] > found["tokens_per_s"] > 0
        assert found["training_tokens_per_s"] > 0
        assert f"| {side} |" in (tmp_path / "table.md").read_text()
