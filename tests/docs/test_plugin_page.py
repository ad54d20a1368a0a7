"""The page on writing a plugin is followed to the letter: its files, its commands, in a process that sees the package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lightrl import TinyPolicy

PAGE = (Path(__file__).parents[2] / "docs" / "plugin.md").read_text()
FILES = dict(re.findall(r'```python title="([^"]+)"\n(.*?)```', PAGE, re.DOTALL))
COMMANDS = [line.split() for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


def run(folder: Path, *words: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(folder / "site")}
    ran = subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=280
    )
    assert ran.returncode == 0, f"{words}: {ran.stdout[-3000:]}{ran.stderr[-3000:]}"
    return ran.stdout


def install(folder: Path, package: str) -> None:
    run(folder, "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--upgrade", "--target", "site", f"./{package}")


@pytest.mark.thorough
def test_every_step_can_be_done_as_written(tmp_path: Path) -> None:
    TinyPolicy(hidden=16, layers=1, heads=2).build().save(tmp_path / "policy")
    short = ["--rollouts", "1", "--trainer.logger", "false", "--trainer.enable_checkpointing", "false", "--data.validation_size", "4"]
    done = []
    for words in COMMANDS:
        if words[:2] == ["pip", "install"]:
            package = Path(words[-1]).name
            install(tmp_path, package)
            for path, text in FILES.items():
                file = tmp_path / package / path
                if path.startswith(("tests", package.replace("-", "_"))) and file.exists():
                    file.write_text(text)
                    done.append(path)
            install(tmp_path, package)
        elif words[0] == "pytest":
            run(tmp_path, *words, "-p", "no:cacheprovider")
        else:
            policy = ["--model.policy.path", "policy"] if "grpo_sort" in words else []
            run(tmp_path, *words, *((short + policy) if words[1] == "fit" else []))
        done.append(" ".join(words))
    assert set(done) == {" ".join(words) for words in COMMANDS} | set(FILES)
