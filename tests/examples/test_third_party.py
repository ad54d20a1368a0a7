"""A package outside plugins/, installed as a stranger installs it, is found, passes its contract and its own tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "examples" / "lightrl-opo"


def run(folder: Path, *words: str) -> str:
    """The output of a command in a process that sees the package."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(folder / "site")}
    ran = subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=280
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    return ran.stdout


@pytest.mark.thorough
def test_the_package_installs_and_is_checked(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    run(tmp_path, "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", "site", str(source))
    run(tmp_path, "pytest", "-q", "-p", "no:cacheprovider", str(source / "tests"))
    assert "LengthWeighted" in run(tmp_path, "lightrl", "explain", "OPO")
    assert "opo_sort" in run(tmp_path, "lightrl", "configs")
    run(tmp_path, "lightrl", "plugins", "check", "lightrl-opo")
