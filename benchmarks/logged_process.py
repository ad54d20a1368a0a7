"""Runs a Python command on one thread with its output in a file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run_logged(words: list[object], log: Path) -> None:
    """Run Python with these words; end everything, with the last lines of its output, if it fails.

    Args:
        words: after the interpreter.
        log: where its output goes.
    """
    command = [sys.executable, *map(str, words)]
    with log.open("w") as output:
        status = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=False)
    if status.returncode:
        last = "\n".join(log.read_text().splitlines()[-30:])
        sys.exit(f"{' '.join(command[1:])}\nfailed with status {status.returncode}; its last lines:\n{last}")
