"""Installs one side of a comparison in an environment of its own, with what it requires and nothing else."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path


def make_environment(folder: Path, requirements: Path) -> None:
    """Make the environment, unless it is there with the same requirements.

    Args:
        folder: of the environment.
        requirements: file for pip.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        # another benchmark may be at it
        fcntl.flock(lock, fcntl.LOCK_EX)
        _install(folder, requirements)


def _install(folder: Path, requirements: Path) -> None:
    done, wanted = folder / ".installed", requirements.read_text()
    if done.exists() and done.read_text() == wanted:
        return
    print(f"installing {requirements.stem} in {folder}, which takes some minutes", flush=True)  # noqa: T201
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    install = [folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements]
    # folders in the file are named from where it stands
    subprocess.run(install, check=True, cwd=requirements.parent)
    done.write_text(wanted)
