"""Rewrites what the pages in this folder compute: run `python docs/refresh.py` (or `make docs`) after a change.

Each ```python block of a page is run, all blocks of a page in one namespace, and what it prints replaces the ```text block
below it. What stands between `<!-- $ COMMAND -->` and `<!-- end -->` is replaced by what the `lightrl` command prints, and between
`<!-- contract of KIND -->` and `<!-- end -->` by what the contract tests hold every class of that kind to.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parent.glob("*.md")
_BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:(?P<gap>\n*)```text\n(?P<printed>.*?)```\n)?", re.DOTALL)
_COMMAND = re.compile(r"<!-- \$ lightrl (?P<words>[^>]*?) -->\n(?P<printed>.*?)<!-- end -->", re.DOTALL)
_CONTRACTS = re.compile(r"<!-- contract of (?P<kind>[^>]*?) -->\n(?P<printed>.*?)<!-- end -->", re.DOTALL)


def refreshed(text: str) -> str:
    """A page with everything that is computed in it computed anew."""
    namespace: dict[str, Any] = {}

    def run_block(match: re.Match[str]) -> str:
        printed = output_of(lambda: exec(match["code"], namespace))
        if match["printed"] is None:
            if printed:
                raise ValueError(f"a block prints, and no ```text block stands below it:\n{match['code']}")
            return match[0]
        return f"```python\n{match['code']}```\n{match['gap']}```text\n{printed}```\n"

    def run_command(match: re.Match[str]) -> str:
        from lightrl.cli import main

        printed = output_of(lambda: main(shlex.split(match["words"])))
        return f"<!-- $ lightrl {match['words']} -->\n\n{printed.strip()}\n\n<!-- end -->"

    def list_contract(match: re.Match[str]) -> str:
        from lightrl.testing.contracts import CHECKS

        titles = [check.title for check in CHECKS if check.kind == match["kind"]]
        return f"<!-- contract of {match['kind']} -->\n\n" + "\n".join(f"* {title}" for title in titles) + "\n\n<!-- end -->"

    return _CONTRACTS.sub(list_contract, _COMMAND.sub(run_command, _BLOCK.sub(run_block, text)))


def output_of(call: Any) -> str:
    """What a call prints, without spaces at line ends."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        call()
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(refreshed(page.read_text()))
