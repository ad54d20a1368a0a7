"""A kind is added to a copy of the tree for real: two files change, and all that follows from the table knows the new kind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PART = '''"""Tutors: which text answers a completion?"""

from __future__ import annotations

from abc import abstractmethod

from lightrl.parts.base import Part


class Tutor(Part):
    """Answers a completion with a text that the policy reads next."""

    @abstractmethod
    def answer(self, completion: str) -> str | None:
        """The text after a completion; None: the conversation ends."""
'''
CONTRACT = '''"""The contract of every tutor."""

from __future__ import annotations

from lightrl.parts.tutor import Tutor
from lightrl_workshop.checks.check import Make, contract_check, expect

KIND = "tutor"


@contract_check(KIND, "the same completion gets the same answer")
def repeatable(make: Make[Tutor]) -> None:
    """From any instance."""
    one, other = make().answer("12"), make().answer("12")
    expect(one == other, f"it answers {one!r} or {other!r}")
'''
BROKEN = '''"""One class for each check of the contract of tutors, which breaks that check."""

import itertools

from broken_contracts.wrong import wrong

from lightrl import Tutor

KIND = "tutor"
COUNT = itertools.count()

BROKEN = {"the same completion gets the same answer": wrong(Tutor, answer=lambda self, completion: str(next(COUNT)))}
'''
TEMPLATE = '''"""$class_name: one answer to everything."""

from typing import Any

from lightrl import Tutor, hookimpl


class $class_name(Tutor):
    """Gives the same answer to every completion."""

    def __init__(self, text: str = "Go on.") -> None:
        """
        Args:
            text: the answer.
        """
        self.text = text

    def answer(self, completion: str) -> str | None:
        return self.text
'''
TEST = """=== test
from $module import $class_name


def test_the_answer() -> None:
    assert $class_name(text="Why?").answer("12") == "Why?"
"""
WORKSHOP = "plugins/lightrl-workshop"
OWN = {
    "lightrl/parts/tutor.py": PART,
    f"{WORKSHOP}/lightrl_workshop/contracts/tutor.py": CONTRACT,
    f"{WORKSHOP}/tests/broken_contracts/tutor.py": BROKEN,
    f"{WORKSHOP}/lightrl_workshop/verbs/templates/kinds/tutor.tmpl": TEMPLATE + TEST,
}
"""The files of the kind itself, but for the pages that `make docs` writes."""
PAGES = {"docs/kinds/tutor.md", "docs/kinds/algorithm.md", "docs/hooks.md"}
ROW = """
        Kind(
            "tutor",
            "lightrl_tutors",
            "lightrl.parts.tutor:Tutor",
            "Which text answers a completion?",
            ("model.algorithm.tutor",),
        ),
"""
SLOT = '''    tutor: Tutor | None = None
    """Answers a completion with a text that the policy reads next."""
'''
EDITS = {
    "lightrl/kinds.py": [("\n    )\n}\n", ROW.rstrip("\n") + "\n    )\n}\n")],
    "lightrl/algorithms/algorithm.py": [
        ("from lightrl.parts.kl import", "from lightrl.parts.tutor import Tutor\nfrom lightrl.parts.kl import"),
        ("    epochs: Passes = 1\n", SLOT + "    epochs: Passes = 1\n"),
    ],
}
"""In other files, the text that is replaced and its replacement; no text: the end of the file."""
WRITE_PAGES = """
import runpy, pathlib
page = runpy.run_path("docs/refresh.py")
for kind in page["KINDS"].values():
    pathlib.Path(f"docs/kinds/{kind.slug}.md").write_text(page["kind_page"](kind))
hooks = pathlib.Path("docs/hooks.md")
hooks.write_text(page["refreshed"](hooks.read_text()))
"""
TESTS = [
    "tests/test_kinds.py", "tests/test_public_names.py", "tests/registry/test_classes.py", "tests/registry/test_loader.py",
    "tests/algorithms/test_algorithm.py", f"{WORKSHOP}/tests/test_broken_contracts.py", "tests/docs/test_site.py",
    "tests/docs/test_contributing_page.py", "tests/docs/test_algorithms_page.py::test_the_pages_of_kinds_are_current",
]  # fmt: skip


def run(folder: Path, *words: str) -> str:
    """Run Python on the copy."""
    path = os.pathsep.join(map(str, [folder, folder / WORKSHOP, folder / "site"]))
    settings = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "COLUMNS": "200"}
    done = subprocess.run([sys.executable, *words], cwd=folder, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a tree by its path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"}


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory, copy_sources: Callable[..., None]) -> tuple[Path, set[str]]:
    """A copy with the new kind, and the paths of all files that differ from before."""
    folder = tmp_path_factory.mktemp("kind") / "tree"
    copy_sources(ROOT, folder)
    before = contents(folder)
    for path, text in OWN.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    for path, replacements in EDITS.items():
        content = (folder / path).read_text()
        for old, new in replacements:
            assert not old or content.count(old) == 1, (path, old)
            content = content.replace(old, new) if old else content + new
        (folder / path).write_text(content)
    run(folder, "-c", WRITE_PAGES)
    after = contents(folder)
    return folder, {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


@pytest.fixture(scope="module")
def tree(changed: tuple[Path, set[str]]) -> Path:
    """The copy."""
    return changed[0]


@pytest.mark.thorough
def test_three_files_change_beside_those_of_the_kind(changed: tuple[Path, set[str]]) -> None:
    assert changed[1] == {*OWN, *PAGES, *EDITS}
    assert len(EDITS) == 2
    assert sum(map(len, EDITS.values())) == 3


@pytest.mark.thorough
@pytest.mark.rare
def test_the_tests_of_registry_catalogue_contracts_and_docs_pass(tree: Path) -> None:
    run(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not thorough", *TESTS)


@pytest.mark.thorough
@pytest.mark.rare
def test_the_kind_is_explained_and_a_new_package_of_it_works(tree: Path) -> None:
    said = run(tree, "-m", "lightrl", "explain", "tutor")
    assert "Which text answers a completion? Subclasses of `lightrl.Tutor`." in said
    assert "In a config: model.algorithm.tutor. Hook: lightrl_tutors." in said
    run(tree, "-m", "lightrl", "plugins", "new", "my-world", "--kind", "tutor")
    install = ["install", "-q", "--no-deps", "--no-index", "--no-build-isolation", "--target", "site", "./my-world"]
    run(tree, "-m", "pip", *install)
    checked = run(tree, "-m", "lightrl", "plugins", "check", "my-world")
    assert "7 checks of its contracts pass" in checked
    assert "1 of its configs take a step on a CPU" in checked
    run(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", "--rootdir", "my-world", "my-world/tests")
