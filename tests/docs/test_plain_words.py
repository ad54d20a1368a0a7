"""Pages, docstrings and messages use the words of the field: no private metaphors, and no docstring begins with What."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PLAIN = {
    r"nobody": "no process, no part, never",
    r"whoever": "a caller that, anyone who",
    r"let go": "freed",
    r"falls? to": "drops to, is the duty of",
    r"lies? in": "is in, is kept in",
    r"(?:is|are|be|been|was|were) told(?! apart)": "gets, receives, is reported, is described",
    r"told of": "informed of",
    r"stands? there": "is there, is in it",
    r"(?<!as they )stands? in (?:the|a|its|front|one)": "is in",
    r"goes by|go by": "counts, follows, depends on",
    r"beside the core: ": "also needs",
}
"""An expression that is not used, and what is written in its place."""

UNUSED = re.compile(rf"(?<![\w`])({'|'.join(PLAIN)})(?![\w`])", re.IGNORECASE)

ALLOWED: dict[str, int] = {
    "lightrl": 1,
    "lightrl/algorithms": 2,
    "lightrl/data": 1,
    "lightrl/ops": 4,
    "lightrl/parts": 13,
    "lightrl/rewards": 1,
    "lightrl/text": 3,
    "lightrl/workers": 1,
}
"""How many of them a room still has. A number may only fall: lower it with the expressions that you take out."""

PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *ROOT.glob("plugins/*/README.md")} - {ROOT / "docs" / "nouns.md"})
"""Without the page that `make docs` copies from docstrings, which are counted below."""
SOURCES = sorted([*(ROOT / "lightrl").rglob("*.py"), *ROOT.glob("plugins/*/lightrl_*.py"), *ROOT.glob("plugins/*/lightrl_*/**/*.py")])


def room(file: Path) -> str:
    """The folder of the core, or the package, that a file is in."""
    parts = file.relative_to(ROOT).parts
    if parts[0] == "plugins":
        return parts[1]
    inner = parts[1:-1]
    return "/".join(("lightrl", *inner[: 2 if inner[:1] == ("rollout",) else 1]))


def texts(file: Path) -> Iterator[tuple[int, str]]:
    """Every docstring and message of a file, with its line."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def unused() -> dict[str, list[str]]:
    """Where the expressions are, by room."""
    found: dict[str, list[str]] = {}
    for file in SOURCES:
        for line, text in texts(file):
            for match in UNUSED.finditer(text):
                found.setdefault(room(file), []).append(f"{file.relative_to(ROOT)}:{line}: {match[0]}")
    return found


def what() -> list[str]:
    """Public docstrings that begin with What and are no question."""
    found: list[str] = []
    for file in SOURCES:
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                continue
            name, said = getattr(node, "name", file.stem), ast.get_docstring(node) or ""
            if said.startswith("What") and "?" not in said.split(".")[0] and not name.startswith("_"):
                found.append(f"{file.relative_to(ROOT)}: {said.splitlines()[0]}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_are_plain(page: Path) -> None:
    lines = enumerate(page.read_text().splitlines(), start=1)
    assert not [f"{page.name}:{number}: {found[0]}" for number, line in lines for found in UNUSED.finditer(line)]


def test_no_room_has_more_than_it_had() -> None:
    found = unused()
    now = Counter({name: len(places) for name, places in found.items()})
    assert not {name: found[name] for name in now if now[name] > ALLOWED.get(name, 0)}


def test_a_number_is_lowered_with_the_expressions_that_are_gone() -> None:
    found = unused()
    assert {name: len(found.get(name, [])) for name in ALLOWED} == ALLOWED, "lower the numbers to these"


def test_no_public_docstring_begins_with_what() -> None:
    assert not what()


def test_an_expression_is_noticed() -> None:
    assert [found[0] for found in UNUSED.finditer("The row is told; nobody stands in the way, and `nobody` is a name.")] == [
        "is told",
        "nobody",
        "stands in the",
    ]
