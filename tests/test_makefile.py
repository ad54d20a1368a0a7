"""The Makefile has few targets, one line of help for each, and pages name only those that it has."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text()
HELP = dict(re.findall(r"^([a-z]+):.*?  ## (.+)$", MAKEFILE, re.MULTILINE))
TARGETS = set(re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)[1].split())
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("plugins/*/README.md"))]
CODE = re.compile(r"```bash\n(.*?)```|`([^`\n]+)`", re.DOTALL)
COMMAND = re.compile(r"^make ([a-z]+)((?: [A-Z]+=\S+)*)", re.MULTILINE)
FILES = {file.stem: file.parent.name for file in (ROOT / "benchmarks").glob("*/*.py")}


def test_there_are_at_most_twenty_targets_with_a_line_of_help_each() -> None:
    assert len(TARGETS) <= 20
    assert set(HELP) == TARGETS
    assert all(len(line) <= 130 for line in HELP.values())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_target_and_file_that_a_page_names_is_there(page: Path) -> None:
    code = "\n".join("".join(found) for found in CODE.findall(page.read_text()))
    for target, words in COMMAND.findall(code):
        assert target in TARGETS, f"make {target}"
        chosen = dict(word.split("=", 1) for word in words.split())
        assert chosen.get("CASE", "bench") in FILES
        assert FILES[chosen.get("TASK", "learn")] == "learning"


def test_continuous_integration_calls_targets() -> None:
    assert {target for target, _ in COMMAND.findall((ROOT / ".ci/run").read_text())} == {"check", "test", "thorough", "stack"}


def test_a_file_that_is_not_there_is_refused_with_those_that_are() -> None:
    words = ["make", "--old-file", ".venv/.installed", "VENV=.venv", "bench", "CASE=nope"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert "no CASE=nope; there are:" in done.stdout
    assert " claims " in done.stdout


def test_a_model_of_the_demo_that_is_not_there_is_refused() -> None:
    words = ["make", "--old-file", ".venv/.installed-for-demo", "VENV=.venv", "demo", "MODEL=nope"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert "no MODEL=nope; there is: smollm2" in done.stdout
    assert "python" not in done.stdout
