"""The notebook: its very cells are run, one after the other, in a process of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "first_run.ipynb"
CELLS = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
LEARNT = re.compile(r"answered right: (\d+)% before, (\d+)% after")


@pytest.mark.thorough
@pytest.mark.rare
def test_the_cells_train_and_draw(tmp_path: Path) -> None:
    (tmp_path / "cells.py").write_text("\n\n".join("".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code"))
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "MPLBACKEND": "agg"}
    done = subprocess.run([sys.executable, "cells.py"], cwd=tmp_path, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = LEARNT.search(done.stdout)
    assert found is not None
    before, after = map(int, found.groups())
    assert after > before + 20


def test_it_was_committed_with_its_outputs_and_no_warning() -> None:
    outputs = [output for cell in CELLS for output in cell.get("outputs", [])]
    said = "".join("".join(output.get("text", "")) for output in outputs)
    assert LEARNT.search(said)
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert "Warning" not in said
    assert said.count("\n") < 40
