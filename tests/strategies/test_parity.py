"""Two processes under a strategy end at the weights of one process; `make parity` runs every case under every strategy."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("case", "strategies"),
    [
        pytest.param("critic alone", ["deepspeed_stage_3"], marks=[pytest.mark.thorough, pytest.mark.rare]),
        pytest.param("shared trunk", ["fsdp2"], marks=pytest.mark.thorough),
        pytest.param("stopped", ["deepspeed_stage_2"], marks=pytest.mark.thorough),
        pytest.param("stopped", ["deepspeed_stage_2_offload"], marks=[pytest.mark.thorough, pytest.mark.rare]),
        pytest.param("critic alone", ["ddp"], marks=[pytest.mark.thorough, pytest.mark.rare]),
        pytest.param("shared trunk", ["deepspeed_stage_1"], marks=[pytest.mark.thorough, pytest.mark.rare]),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_weights_equal_those_of_one_process(case: str, strategies: list[str]) -> None:
    command = [sys.executable, "-m", "benchmarks.evidence.parity", "--cases", case, "--strategies", *strategies]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("same") == len(strategies)
