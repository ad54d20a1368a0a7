"""Two processes under a strategy end at the weights of one process; `make parity` runs every case under every strategy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "parity.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "strategies"),
    [
        ("critic alone", ["ddp", "deepspeed_stage_3"]),
        ("shared trunk", ["fsdp2"]),
        pytest.param("shared trunk", ["deepspeed_stage_1"], marks=pytest.mark.thorough),
        ("stopped", ["deepspeed_stage_2"]),
    ],
    ids=["critic alone", "shared trunk, fsdp2", "shared trunk, deepspeed_stage_1", "stopped"],
)
def test_weights_equal_those_of_one_process(case: str, strategies: list[str]) -> None:
    command = [sys.executable, str(BENCHMARK), "--cases", case, "--strategies", *strategies]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("same") == len(strategies)
