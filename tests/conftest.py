"""Two ways to have packages found without a download: a virtual environment with pip, and a folder on the path without it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


@dataclass
class Site:
    """A folder with packages as an installation leaves them, which processes of this environment see."""

    folder: Path

    def add(self, project: Path) -> None:
        """Put in the modules of a project, and what says which entry points it has."""
        declared = tomllib.loads((project / "pyproject.toml").read_text())["project"]
        name, version = declared["name"], declared.get("version", "0")
        for module in project.iterdir():
            if module.suffix == ".py":
                shutil.copy(module, self.folder)
            elif (module / "__init__.py").is_file():
                shutil.copytree(module, self.folder / module.name)
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        groups = declared["entry-points"].items()
        lines = [f"[{group}]\n" + "".join(f"{entry} = {value}\n" for entry, value in entries.items()) for group, entries in groups]
        (info / "entry_points.txt").write_text("\n".join(lines))

    def run(self, *words: str, cwd: Path | None = None, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run Python with these words, away from the checkout."""
        settings = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(self.folder), **settings}
        place = self.folder if cwd is None else cwd
        return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, env=settings, cwd=place)

    def lightrl(self, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "lightrl", *words, **settings)

    def in_turn(self, *commands: list[str], **settings: str) -> list[list[Any]]:
        """Status, output and errors of several commands in one process, which loads the plugins once."""
        done = self.run("-c", IN_TURN, json.dumps(commands), COLUMNS="200", **settings)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.partition("ANSWERS")[2])


IN_TURN = """
import contextlib, io, json, sys
from lightrl.cli import main
answers = []
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(words)
    answers.append([status, out.getvalue(), err.getvalue()])
print("ANSWERS" + json.dumps(answers))
"""


@pytest.fixture(scope="session")
def new_site() -> Callable[[Path, list[Path]], Site]:
    """Makes a folder in which these projects are found."""

    def new_site(folder: Path, projects: list[Path]) -> Site:
        folder.mkdir()
        site = Site(folder)
        for project in projects:
            site.add(project)
        return site

    return new_site


@pytest.fixture(scope="session")
def new_environment() -> Callable[[Path, bool], Environment]:
    """Makes a virtual environment in a folder."""
    return environment
