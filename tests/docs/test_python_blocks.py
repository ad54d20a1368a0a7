"""The Python that stands in the pages runs, each page from its top."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
# a block with a title is a file of a package, which test_plugin_page.py makes
BLOCKS = {page.name: re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL) for page in sorted(DOCS.glob("*.md"))}


@pytest.mark.parametrize("page", [page for page, blocks in BLOCKS.items() if blocks])
def test_the_blocks_of_a_page_run_one_after_the_other(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for block in BLOCKS[page]:
        exec(compile(block, page, "exec", dont_inherit=True), names)
