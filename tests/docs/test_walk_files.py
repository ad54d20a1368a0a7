"""The files that the walk lists for GRPO are few, and a run imports each of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "docs" / "walk.md").read_text().partition("## The files of GRPO")[2].partition("\n## ")[0]
LISTED = re.findall(r"^\| `([\w/.-]+\.py)` \|", SECTION, re.MULTILINE)

RUN = f"""
import sys
from lightrl.cli import main

words = "fit --config grpo_sort --model.policy TinyPolicy --data.validation_size 0 --rollouts 1 --model.prompts_per_rollout 2"
assert main(words.split()) == 0
files = [str(getattr(module, "__file__", "") or "") for module in list(sys.modules.values())]
print(*[file.removeprefix({str(ROOT) + "/"!r}) for file in files if file.startswith({str(ROOT)!r})], sep="\\n")
"""


def test_the_list_is_short_and_says_how_long_it_is() -> None:
    assert len(LISTED) == len(set(LISTED)) <= 25
    assert f"{len(LISTED)} files" in SECTION
    assert [file for file in LISTED if not (ROOT / file).is_file()] == []


@pytest.mark.thorough
def test_a_run_of_grpo_imports_every_file_of_the_list(tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", RUN], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(set(LISTED) - set(done.stdout.split())) == []
