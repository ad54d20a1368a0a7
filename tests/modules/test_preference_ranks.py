"""Two processes that learn from preferences say and write what one does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

SCRIPT = Path(__file__).parent / "preference_ranks.py"


def trained(strategy: str, folder: Path) -> Path:
    place, launcher = folder / strategy, ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    place.mkdir()
    command = [sys.executable, *([] if strategy == "auto" else launcher), str(SCRIPT), strategy, str(place)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=folder, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return place


def known(cache: Path) -> dict[tuple[str, bytes], float]:
    """Log-probs by reference and row."""
    files = [(file.parent.name, load_file(file)) for file in cache.rglob("*.safetensors")]
    return {
        (name, bytes(key)): value
        for name, held in files
        for key, value in zip(held["keys"].tolist(), held["logprobs"].tolist(), strict=True)
    }


@pytest.mark.slow
def test_two_processes_say_and_write_what_one_does(tmp_path: Path) -> None:
    one, two = trained("auto", tmp_path), trained("ddp", tmp_path)
    for name in ("DPO", "KTO"):
        expected, found = (load_file(place / name / "model.safetensors") for place in (one, two))
        for key, weight in expected.items():
            assert float((found[key] - weight).abs().max()) <= 1e-6, (name, key)
        numbers, theirs = (json.loads((place / f"{name}.json").read_text()) for place in (one, two))
        assert {"loss", "rewards/margins", "tokens", "val/loss", "val/rewards/margins", "val/logps/chosen"} <= numbers.keys()
        assert abs(numbers["rewards/margins"]) > 1e-3
        assert theirs == pytest.approx(numbers, abs=1e-5)
    rows, same = known(one / "cache"), known(two / "cache")
    assert rows
    assert same == pytest.approx(rows, abs=1e-4)
