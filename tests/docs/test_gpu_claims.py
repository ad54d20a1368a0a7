"""Pages say of a GPU what was run on an H100, and what was not run on one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "kinds").glob("*.md"), *(ROOT / "plugins").glob("*/README.md")])
OF_A_GPU = re.compile(r"\bcuda\b|CUDA(?!_VISIBLE)|NCCL|[Oo]n a GPU")
TO_THE_BIT = re.compile(r"to\s+the\s+bit\b(?! as)")
SAID = re.compile(r"not\s+(been\s+)?run\s+on\s+a\s+GPU|have\s+not\s+been\s+run|H100")


def claims(page: Path) -> list[str]:
    """Paragraphs, entries of lists and lines of tables, without what a user types or sees."""
    text = re.sub(r"(?ms)^ *```.*?^ *```", "", page.read_text())
    text = re.sub(r"`[^`\n]*\bcuda:\d[^`\n]*`", "", text)
    return re.split(r"\n\s*\n|\n(?=\s*[-*|] ?)", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_is_said_of_a_gpu_says_whether_it_was_run_there(page: Path) -> None:
    assert [claim for claim in claims(page) if OF_A_GPU.search(claim) and not SAID.search(claim)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_is_the_same_to_the_bit_is_so_on_a_cpu(page: Path) -> None:
    assert [claim for claim in claims(page) if TO_THE_BIT.search(claim) and "CPU" not in claim] == []
