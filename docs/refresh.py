"""Rewrites everything in the pages of this folder that is computed. Run `python docs/refresh.py` (or `make docs`) after a change.

Each ```python block of a page is run, all blocks of a page in one namespace. Its output replaces the ```text block below it.
The text between one of these marks and `<!-- end -->` is replaced as well:

    <!-- $ COMMAND -->             the output of a `lightrl` command
    <!-- contract of KIND -->      the checks in the contract of a kind

The folder `kinds` has a page for each kind, which is written as a whole from its row in `lightrl/kinds.py` and from its contract.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

from lightrl_workshop import contracts  # noqa: F401 - importing them is what finds their checks
from lightrl_workshop.checks.check import CHECKS, NO_PARTS

from lightrl.kinds import COMMAND, KINDS, Kind
from lightrl.registry.classes import registry
from lightrl.registry.distribution import CORE

HERE = Path(__file__).parent
_BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:(?P<gap>\n*)```text\n(?P<printed>.*?)```\n)?", re.DOTALL)
_MARKED = re.compile(r"<!-- (?P<mark>\$ lightrl [^>]*?|contract of [^>]*?) -->\n.*?<!-- end -->", re.DOTALL)


def refreshed(text: str) -> str:
    """A page with everything that is computed in it computed anew."""
    namespace: dict[str, object] = {}

    def run_block(match: re.Match[str]) -> str:
        printed = output_of(lambda: exec(compile(match["code"], "page", "exec", dont_inherit=True), namespace))
        if match["printed"] is None:
            if printed:
                raise ValueError(f"a block prints, and no ```text block stands below it:\n{match['code']}")
            return match[0]
        return f"```python\n{match['code']}```\n{match['gap']}```text\n{printed}```\n"

    def fill(match: re.Match[str]) -> str:
        return f"<!-- {match['mark']} -->\n\n{computed(match['mark']).strip()}\n\n<!-- end -->"

    return _MARKED.sub(fill, _BLOCK.sub(run_block, text))


def computed(mark: str) -> str:
    """The text that belongs below a mark."""
    if mark.startswith("$ lightrl "):
        from lightrl.cli import main

        return output_of(lambda: main(shlex.split(mark.removeprefix("$ lightrl "))))
    return contract(mark.removeprefix("contract of "))


def contract(kind: str) -> str:
    """The checks of a kind as a list."""
    return "\n".join(f"* {check.title}" for check in CHECKS if check.kind == kind)


def kind_page(kind: Kind) -> str:
    """The page of a kind: its question, its places in a config, its contract and its base class."""
    places = " or ".join(f"`{place}`" for place in kind.places)
    named = f"A config names one at {places}. " if places else ""
    others = "It must pass these checks" if kind.title in NO_PARTS else "It must pass these checks, and\nthose of [every part](../parts.md)"
    return f"""# {kind.title[0].upper()}{kind.title[1:]}

{kind.question}

{named}The hook is [`{kind.hook}`](../hooks.md#lightrl.hookspecs.{kind.hook}).
`lightrl plugins new NAME --kind {kind.slug}` writes a package with one. {others}:

{contract(kind.title)}

::: {kind.base.replace(":", ".")}
"""


def output_of(call: Callable[[], object]) -> str:
    """The output of a call, without spaces at line ends."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        call()
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def known_packages() -> str:
    """What the packages beside the core register, for the errors that name one which is not installed."""
    table = {}
    for record in registry().records:
        if record.distribution != CORE and (HERE.parent / "plugins" / record.distribution).is_dir():
            classes = sorted(name for kind, names in record.names.items() if kind != COMMAND.title for name in names)
            commands = sorted(" ".join(cls.words()) for cls in record.of_kind(COMMAND.title))
            table[record.distribution] = {"classes": classes, "commands": commands, "configs": sorted(path.stem for path in record.configs)}
    return json.dumps(dict(sorted(table.items())), indent=1) + "\n"


if __name__ == "__main__":
    (HERE.parent / "lightrl" / "registry" / "known_packages.json").write_text(known_packages())
    for page in HERE.glob("*.md"):
        page.write_text(refreshed(page.read_text()))
    for kind in KINDS.values():
        (HERE / "kinds" / f"{kind.slug}.md").write_text(kind_page(kind))
