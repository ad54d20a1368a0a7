"""Installs one side of a comparison in an environment of its own, with what it requires and nothing else."""

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
    install = [folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements]
    # folders in the file are named from where it stands
    subprocess.run(install, check=True, cwd=requirements.parent)
    done.write_text(wanted)
