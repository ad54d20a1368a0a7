"""A virtual environment that sees this one's packages, so that packages are installed for real and nothing is downloaded."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class Environment:
    """A virtual environment."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def pip(self, *words: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "pip", "--python", str(self.python), *words, "--no-deps", "--no-index", "--quiet"],
            capture_output=True, text=True, check=False, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def run(self, *words: str, cwd: Path | None = None, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run its Python with these words, away from the checkout."""
        settings = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **settings}
        settings.pop("PYTHONPATH", None)
        place = self.folder if cwd is None else cwd
        return subprocess.run([self.python, *words], capture_output=True, text=True, check=False, env=settings, cwd=place)

    def lightrl(self, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "lightrl", *words, **settings)


def environment(folder: Path, editable: bool) -> Environment:
    """A new one; `editable` says whether the editable packages of this environment, lightrl among them, are seen as well."""
    venv.create(folder, with_pip=False, symlinks=True)
    made = Environment(folder)
    parent = sysconfig.get_paths()["purelib"]
    site = Path(sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})["purelib"])
    # what .pth files of the parent say, editable packages above all, is followed only by addsitedir
    (site / "parent.pth").write_text(f"import site; site.addsitedir({parent!r})\n" if editable else f"{parent}\n")
    return made


@pytest.fixture(scope="session")
def new_environment() -> Callable[[Path, bool], Environment]:
    """Makes a virtual environment in a folder."""
    return environment
