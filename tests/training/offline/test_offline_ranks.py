"""Two processes that learn from given completions say and write what one does, under every strategy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

SCRIPT = Path(__file__).parent / "offline_ranks.py"
REPORTED = {
    "sft": {"loss", "tokens", "val/loss", "val/metrics/chrf"},
    "dpo": {"loss", "rewards/margins", "tokens", "val/loss", "val/rewards/margins", "val/logps/chosen"},
    "aot": {"loss", "loss/pairs", "loss/sides", "rewards/margins", "val/loss"},
    "kto": {"loss", "rewards/margins", "tokens", "val/loss", "val/rewards/margins"},
    "bco": {"loss", "reward_shift", "rewards/margins", "val/loss"},
    "reward_model": {
        *("loss", "accuracy", "val/loss", "val/accuracy", "val/margin", "val/score/std", "val/calibration/error", "val/metrics/auroc"),
    },
}


def trained(strategy: str, folder: Path) -> Path:
    folder.mkdir()
    # the launcher of the user: under it no rank is started by another
    command = [sys.executable, *(["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"] if strategy != "auto" else [])]
    done = subprocess.run(
        [*command, str(SCRIPT), strategy, str(folder)],
        capture_output=True, text=True, timeout=300, check=False, cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained("auto", tmp_path_factory.mktemp("ranks") / "one")


def known(cache: Path) -> dict[tuple[str, bytes], float]:
    """Log-probs by reference and row."""
    files = [(file.parent.name, load_file(file)) for file in cache.rglob("*.safetensors")]
    return {
        (name, bytes(key)): value
        for name, held in files
        for key, value in zip(held["keys"].tolist(), held["logprobs"].tolist(), strict=True)
    }


def same_weights(one: Path, two: Path) -> None:
    expected, found = load_file(one / "model.safetensors"), load_file(two / "model.safetensors")
    assert found.keys() == expected.keys()
    for name, weight in expected.items():
        assert float((found[name] - weight).abs().max()) <= 1e-6, name


@pytest.mark.parametrize(
    "strategy",
    [
        pytest.param("ddp", marks=[pytest.mark.thorough, pytest.mark.rare]),
        pytest.param("deepspeed_stage_2", marks=[pytest.mark.thorough, pytest.mark.rare]),
        pytest.param("deepspeed_stage_3", marks=[pytest.mark.thorough, pytest.mark.rare]),
        pytest.param("fsdp2", marks=pytest.mark.thorough),
    ],
)
def test_two_processes_say_and_write_what_one_does(one: Path, tmp_path: Path, strategy: str) -> None:
    two = trained(strategy, tmp_path / "two")
    for name, reported in REPORTED.items():
        same_weights(one / name, two / name)
        numbers, theirs = (json.loads((place / f"{name}.json").read_text()) for place in (one, two))
        assert reported <= numbers[-1].keys()
        assert numbers[0]["loss"] != pytest.approx(numbers[-1]["loss"], abs=1e-3)
        for mine, other in zip(numbers, theirs, strict=True):
            assert other == pytest.approx(mine, abs=1e-5), name
    for name in ("dpo-cache", "kto-cache"):
        rows = known(one / name)
        assert rows
        assert known(two / name) == pytest.approx(rows, abs=1e-4)
