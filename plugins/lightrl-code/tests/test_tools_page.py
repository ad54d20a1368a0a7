"""The page about tools names every format, and its functions are tools."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from lightrl_code.tools.call_formats import FORMATS
from lightrl_code.tools.tool_function import ToolFunction, schema_of

PAGE = (Path(__file__).parents[3] / "docs" / "tools.md").read_text()


def test_every_format_is_in_the_table() -> None:
    assert {*FORMATS, "auto"} <= set(re.findall(r"`(\w+)`", PAGE))


def test_the_functions_of_the_page_can_be_described() -> None:
    names: dict[str, Any] = {"__name__": "page"}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, names)
    for name, function in (("search", names["search"]), ("buy", names["Shop"].buy)):
        assert schema_of(ToolFunction(name, f"page.{name}", function))["function"]["name"] == name
