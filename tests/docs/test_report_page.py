"""The page about reports: its commands work, and a report has the sections that it names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import yaml
from torch.utils.tensorboard import SummaryWriter

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "report.md").read_text()
COMMANDS = [shlex.split(line)[1:] for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
SECTIONS = re.findall(r"^\| ([A-Z][^|]*?) \|", PAGE.partition("## What stands in it")[2].partition("\n## ")[0], re.MULTILINE)


def test_its_commands_write_pages_with_the_sections_that_it_names(lightrl: Callable[..., Any], tmp_path: Path) -> None:
    for folder in {word for words in COMMANDS for word in words if word.startswith("runs/")}:
        with SummaryWriter(str(tmp_path / folder)) as log:
            log.add_text("val/completions", "prompt | completion\n--- | ---\n`1=` | `1`", 1)
            log.add_histogram("histograms/reward", torch.tensor([0.0, 1.0]), 0)
            for name in ("reward", "reward_std", "completions/clipped_ratio", "approx_kl", "grad_norm"):
                log.add_scalar(name, 0.5, 0)
                log.add_scalar(name, 0.75, 1)
        (tmp_path / folder / "config.yaml").write_text(yaml.safe_dump({"rollouts": 2, "model": {"algorithm": folder}}))
    for words in COMMANDS:
        answer = lightrl(*words)
        assert answer.status == 0, answer.err
    found = re.findall(r"<h2>(.*?)</h2>", (tmp_path / "comparison.html").read_text())
    named = [name.strip() for section in SECTIONS for name in section.split(",") if name.strip() != "..."]
    assert found == named


def test_its_picture_is_there_and_modest() -> None:
    [picture] = [DOCS / path for path in re.findall(r"!\[[^]]+\]\((images/[^)]+)\)", PAGE)]
    assert 0 < picture.stat().st_size < 150_000
