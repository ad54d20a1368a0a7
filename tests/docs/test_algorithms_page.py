"""The numbers and tables in `docs/` are those that the code gives today."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch

from lightrl.config.describe.algorithms import registered
from lightrl.kinds import KINDS

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.glob("*.md"))
REFRESH = runpy.run_path(str(DOCS / "refresh.py"))
refreshed = REFRESH["refreshed"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_numbers_and_tables_are_current(page: Path) -> None:
    torch.manual_seed(0)
    text = page.read_text()
    assert refreshed(text) == text, "run: make docs"


def test_the_pages_of_kinds_are_current() -> None:
    pages = {page.stem: page.read_text() for page in (DOCS / "kinds").iterdir()}
    assert pages == {kind.slug: REFRESH["kind_page"](kind) for kind in KINDS.values()}, "run: make docs"


def test_the_page_of_nouns_is_up_to_date() -> None:
    page = (DOCS / "nouns.md").read_text()
    assert page == REFRESH["nouns_page"](), "run: make docs"
    for noun in ("Experience", "Request", "Result", "Reply", "Episode"):
        assert f"### `{noun}`" in page
    assert "* `response_mask: Tensor`" in page


def test_the_page_on_algorithms_speaks_of_every_one() -> None:
    text = (DOCS / "algorithms.md").read_text()
    assert not [cls.__name__ for _, cls in registered() if f"`{cls.__name__}`" not in text]


def test_a_wrong_number_is_noticed() -> None:
    page = "```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n"
    assert refreshed(page) == page.replace("3", "2")


def test_blocks_of_a_page_share_their_names_and_a_silent_block_has_no_output() -> None:
    page = "```python\na = 2\n```\n\nwords\n\n```python\nprint(a)\n```\n```text\n2\n```\n"
    assert refreshed(page) == page


def test_a_block_that_prints_without_a_place_for_it_is_an_error() -> None:
    with pytest.raises(ValueError, match="no ```text block"):
        refreshed("```python\nprint(1)\n```\n")


def test_a_command_between_marks_is_run() -> None:
    page = refreshed("<!-- $ lightrl algorithms GRPO --compare --markdown -->\n<!-- end -->\n")
    assert "| `GRPO` | policy, reference |" in page
    assert refreshed(page) == page
