"""The script of the page on Python, typed as it stands, trains; what is added to it further down does too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text()
BLOCKS = re.findall(r'```python title="train.py"\n(.*?)```', PAGE, re.DOTALL)


def test_the_script_has_some_ten_lines() -> None:
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) <= 10


@pytest.mark.filterwarnings("ignore")
def test_the_blocks_run_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for block in BLOCKS:
        exec(compile(block, "python.md", "exec", dont_inherit=True), names)
    said = capsys.readouterr().err
    assert said.count("GRPO: 2 rollouts, 2 optimizer steps") == 2
    assert said.count("GRPO: 3 rollouts, 3 optimizer steps") == 1, "it went on from the second"
    assert (tmp_path / "sorter" / "config.json").is_file()
    assert "Watch: tensorboard --logdir" in said
    assert list(tmp_path.rglob("*.ckpt"))
