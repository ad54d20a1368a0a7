"""Installs a peer in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def make_environment(folder: Path, requirements: Path) -> None:
    """Make the environment, unless it is there with the same requirements.

    Args:
        folder: of the environment.
        requirements: file for pip.
    """
    done, wanted = folder / ".installed", requirements.read_text()
    if done.exists() and done.read_text() == wanted:
        return
    print(f"installing {requirements.stem} in {folder}, which takes some minutes", flush=True)  # noqa: T201
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements], check=True)
    done.write_text(wanted)
