"""The page on what a part declares: each wrong class breaks the check that is named below it, and each right one keeps its contract."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from lightrl_workshop.checks.check import BrokenContract
from lightrl_workshop.contract_tests import class_cases

from lightrl.import_path import imported
from lightrl.kinds import KINDS

PAGE = (Path(__file__).parents[2] / "docs" / "declaring.md").read_text()
BLOCK = r"```python{}\n(.*?)```"
(IMPORTS,) = re.findall(BLOCK.format(""), PAGE, re.DOTALL)
WRONG, RIGHT = (re.findall(BLOCK.format(f' title="{word}"'), PAGE, re.DOTALL) for word in ("wrong", "right"))
WORDS = re.findall(r"^## (\w+)$", PAGE, re.MULTILINE)
CHECKS = re.findall(r"^Breaks \*(.*?)\*", PAGE, re.MULTILINE)


def broken_by(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The checks that the class of a block breaks, and does not say so."""
    (name,) = re.findall(r"^class (\w+)", text, re.MULTILINE)
    (folder / "declaring.py").write_text(IMPORTS + text)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "declaring", raising=False)
    cls: type[Any] = imported(f"declaring.{name}")
    (kind,) = (title for title, kind in KINDS.items() if kind.is_part and issubclass(cls, kind.base_class))
    broken = []
    for case in class_cases(kind, cls):
        try:
            case.run(folder)
        except BrokenContract:
            broken += [] if case.exception else [case.check.title]
    return broken


def test_every_word_has_a_wrong_and_a_right_class() -> None:
    assert len(WORDS) == len(WRONG) == len(RIGHT) == len(CHECKS) == 7
    assert re.findall(r"^\| \[`(\w+)`\]", PAGE, re.MULTILINE) == WORDS


@pytest.mark.parametrize("number", range(len(WORDS)), ids=WORDS)
def test_the_wrong_class_breaks_the_check_and_the_right_one_none(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CHECKS[number] in broken_by(WRONG[number], tmp_path, monkeypatch)
    assert broken_by(RIGHT[number], tmp_path, monkeypatch) == []
