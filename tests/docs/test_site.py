"""The site can be built, and leaves out no public name, no kind and no hook."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lightrl
from lightrl.kinds import KINDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SHOWN = {name for page in DOCS.rglob("*.md") for name in re.findall(r"^(?:::: |## .*\{ #)([\w.]+)", page.read_text(), re.MULTILINE)}


def test_every_public_name_is_in_the_reference() -> None:
    lost = [f"{home}.{name}" for name, home in lightrl.MODULE_OF.items() if f"{home}.{name}" not in SHOWN]
    assert lost in ([], ["lightrl.hookspecs.hookimpl"])


def test_what_rows_inherit_is_in_the_reference() -> None:
    nouns = [getattr(lightrl, name) for name in lightrl._HOME["lightrl.types"]]
    bases = {base for noun in nouns for base in noun.__mro__ if base.__module__ == "lightrl.types"}
    assert not [base.__name__ for base in bases if f"lightrl.types.{base.__name__}" not in SHOWN]


def test_the_walk_is_the_one_that_is_taken() -> None:
    (walk,) = re.findall(r"```py\n(.*?)```", (DOCS / "walk.md").read_text(), re.DOTALL)
    taken = inspect.getsource(lightrl.PolicyOptimization.training_step)
    assert [line.strip() for line in taken.splitlines()][2:] == walk.splitlines()


def test_every_page_is_in_the_contents() -> None:
    contents = (ROOT / "mkdocs.yml").read_text()
    assert not [page.name for page in DOCS.glob("*.md") if page.name not in contents]


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_what_a_page_shows_is_there(name: str) -> None:
    module, found = name, None
    while found is None:
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError:
            module = module.rpartition(".")[0]
            assert module, f"nothing is named {name}"
    for part in name.removeprefix(module).split(".")[1:]:
        found = getattr(found, part)


@pytest.mark.thorough
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path)]
    built = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=280)
    assert built.returncode == 0, built.stderr
    assert "generalised_advantages" in (tmp_path / "reference" / "index.html").read_text()
    hooks = (tmp_path / "hooks" / "index.html").read_text()
    assert [kind.hook for kind in KINDS.values()] == re.findall(r"<td><code>(\w+)</code></td>", hooks)
    for kind in KINDS.values():
        assert f'href="../kinds/{kind.slug}/"' in hooks
        assert f'id="{kind.base.replace(":", ".")}"' in (tmp_path / "kinds" / kind.slug / "index.html").read_text()
