"""What the lines of `gpu_day.py` are given, and what they give."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import ROOT


@dataclass(frozen=True)
class Day:
    """The settings of a day."""

    out: str
    """Folder for everything that is written; each line has one of its name in it."""
    gpus: int
    """0: what can run runs on the CPU."""
    policy: str = ""
    """Folder or hub id of a policy, or nothing."""
    data: str = ""
    """File with problems, or nothing."""

    @property
    def device(self) -> str:
        """Where tensors are made."""
        return "cuda" if self.gpus else "cpu"

    @property
    def accelerator(self) -> str:
        """Lightning's name."""
        return "gpu" if self.gpus else "cpu"

    def folder(self, line: str) -> Path:
        """Of one line."""
        return Path(self.out) / line


@dataclass
class Found:
    """Numbers of a line, and what is wrong."""

    numbers: dict[str, Any] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def expect(self, holds: bool, otherwise: str) -> None:
        """Note what is wrong unless something holds."""
        if not holds:
            self.wrong.append(otherwise)


def command(words: list[object], log: Path, **environment: str) -> str:
    """The output of a command that runs in the root of the repository.

    Raises:
        RuntimeError: it has failed; with its last lines.
    """
    said = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"} | environment
    with log.open("w") as output:
        done = subprocess.run(list(map(str, words)), cwd=ROOT, env=said, stdout=output, stderr=subprocess.STDOUT, check=False)
    text = log.read_text(errors="replace")
    if done.returncode:
        last = "\n".join(text.splitlines()[-30:])
        raise RuntimeError(f"{' '.join(map(str, words))}\nfailed with status {done.returncode}; its last lines:\n{last}")
    return text
