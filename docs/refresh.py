"""Rewrites everything in the pages of this folder that is computed. Run `python docs/refresh.py` (or `make docs`) after a change.

Each ```python block of a page is run, all blocks of a page in one namespace. Its output replaces the ```text block below it.
The text between one of these marks and `<!-- end -->` is replaced as well:

    <!-- $ COMMAND -->             the output of a `lightrl` command
    <!-- contract of KIND -->      the checks in the contract of a kind
    <!-- hooks -->                 a table of the hooks

The folder `kinds` has a page for each kind, which is written as a whole from its row in `lightrl/kinds.py`, from its contract and from its
base class. `nouns.md` is written from the classes that it names.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import json
import re
import shlex
from collections.abc import Callable
from importlib.metadata import requires
from pathlib import Path

from lightrl_workshop.checks.check import NO_PARTS
from lightrl_workshop.contracts import own_checks
from packaging.requirements import Requirement

from lightrl.cli.catalogue.explain import all_fields_of, fields_of, signature_text, to_write
from lightrl.kinds import COMMAND, KINDS, Kind
from lightrl.registry.classes import registry
from lightrl.registry.known_packages import CORE

HERE = Path(__file__).parent
_BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:(?P<gap>\n*)```text\n(?P<printed>.*?)```\n)?", re.DOTALL)
_MARKED = re.compile(r"<!-- (?P<mark>\$ lightrl [^>]*?|contract of [^>]*?|hooks) -->\n.*?<!-- end -->", re.DOTALL)


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
    return hooks() if mark == "hooks" else contract(mark.removeprefix("contract of "))


def hooks() -> str:
    """Every hook with the kind of its classes, in the order of the kinds."""
    rows = [f"| `{kind.hook}` | [{kind.title}](kinds/{kind.slug}.md) | {kind.description} |" for kind in KINDS.values()]
    return "\n".join(["| hook | kind | the classes that it returns |", "|---|---|---|", *rows])


def contract(kind: str) -> str:
    """The checks of a kind as a list."""
    return "\n".join(f"* {check.title}" for check in own_checks(kind))


def kind_page(kind: Kind) -> str:
    """The page of a kind: its question, its places in a config, its contract and its base class."""
    places = " or ".join(f"`{place}`" for place in kind.places)
    named = f"A config names one at {places}. " if places else ""
    others = "It must pass these checks" if kind.title in NO_PARTS else "It must pass these checks, and\nthose of [every part](../parts.md)"
    return f"""# {kind.title[0].upper()}{kind.title[1:]}

{kind.question}

{named}The hook is [`{kind.hook}`](../hooks.md).
`lightrl plugins new NAME --kind {kind.slug}` writes a package with one. {others}:

{contract(kind.title)}

## `{kind.base_name}` {{ #{kind.base.replace(":", ".")} }}

{class_text(kind.base_class)}"""


def class_text(cls: type, inherited: bool = False) -> str:
    """A class as plain Markdown: bases, docstring, fields and methods, those that a subclass must write first.

    Args:
        cls: of lightrl, or of a package that documents it.
        inherited: with the fields of the classes of lightrl that it inherits from; without them, its own alone.
    """
    bases = ", ".join(base.__name__ for base in cls.__bases__ if base.__name__ not in ("object", "ABC", "Generic"))
    derived = f"  # class {cls.__name__}({bases})" if bases else ""
    head = f"```py\nfrom {public_module(cls)} import {cls.__name__}{derived}\n```\n"
    if not cls.__module__.startswith("lightrl"):
        return f"{head}\n{cls.__module__.partition('.')[0].title()} documents this class.\n"
    required = [method.partition("(")[0] for method in to_write(cls)]
    own = [name for name, member in vars(cls).items() if not name.startswith("_") and callable_of(member)]
    fields = "\n".join(f"* `{field}`{indented(field.about)}" for field in (all_fields_of if inherited else fields_of)(cls))
    parts = [head, marked_down(cls.__dict__.get("__doc__") or "")]
    parts += [
        f"**Arguments**\n\n{marked_down(said)}" for said in [vars(cls).get("__init__").__doc__ if "__init__" in vars(cls) else ""] if said
    ]
    parts += [f"**Fields**\n\n{fields}"] if fields else []
    for title, names in (("To be written", required), ("Methods", [name for name in own if name not in required])):
        parts += [f"**{title}**", *(method_text(cls, name) for name in names)] if names else []
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def public_module(cls: type) -> str:
    """Where a class is imported from."""
    import lightrl

    return "lightrl" if cls.__name__ in lightrl.__all__ else cls.__module__


def callable_of(member: object) -> Callable[..., object] | None:
    """The function of a method or a property; None for anything else."""
    found = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
    return found if inspect.isfunction(found) else None


def method_text(cls: type, name: str) -> str:
    """A method with its arguments and its docstring."""
    member = inspect.getattr_static(cls, name)
    function = callable_of(member)
    signature = "" if isinstance(member, property) else signature_text(function)
    return f"`{name}{signature}`\n\n{marked_down(inspect.getdoc(function) or '')}"


def marked_down(docstring: str) -> str:
    """A docstring whose sections, such as `Args`, are lists."""
    text = inspect.cleandoc(docstring)

    def section(match: re.Match[str]) -> str:
        body = re.sub(r"^ {4}(\S[^:\n]*):(?= |$)", r"* `\1`:", match[2], flags=re.MULTILINE)
        body = re.sub(r"^ {4}(?=[^\s*])", "* ", body, flags=re.MULTILINE)
        return f"{match[1]}:\n\n" + re.sub(r"^ {8}", "  ", body, flags=re.MULTILINE)

    return re.sub(r"^(Args|Returns|Raises|Yields|Attributes):\n((?: {4}.*\n?|\n(?= {4}))+)", section, text, flags=re.MULTILINE)


def indented(text: str) -> str:
    """The text of a list item behind a colon, its further lines within the item."""
    return ": " + text.replace("\n", "\n  ") if text else ""


NOUNS = {
    "From a prompt to a step": [
        "lightrl.prompt:Prompt", "lightrl.parts.engine:Request", "lightrl.parts.engine:Result", "lightrl.types:Rollout",
        "lightrl.types:ScoredRollout", "lightrl.types:Experience", "lightrl.types:TrainingBatch",
    ],
    "Episodes": ["lightrl.parts.environment:Reply", "lightrl.prompt:Episode", "lightrl.prompt:Turn"],
    "Of parts": ["lightrl.types:PolicyOutput", "lightrl.types:Outcome", "lightrl.types:Denominators", "lightrl.statistic:Statistic"],
}  # fmt: skip
"""The classes of the page of nouns, by heading."""


def nouns_page() -> str:
    """The page of what parts get and give."""
    sections = []
    for title, paths in NOUNS.items():
        sections.append(f"## {title}")
        for module, _, name in (path.partition(":") for path in paths):
            sections.append(f"### `{name}`\n\n{class_text(getattr(importlib.import_module(module), name), inherited=True)}".strip())
    return "# Nouns\n\nWhat parts get and give, with all fields. `lightrl explain NAME` prints one.\n\n" + "\n\n".join(sections) + "\n"


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
            commands = sorted(" ".join(cls.words()) for cls in record.of_kind(COMMAND.title) if cls.option is None)
            table[record.distribution] = {"classes": classes, "commands": commands, "configs": sorted(path.stem for path in record.configs)}
            needed = [Requirement(text).name for text in requires(record.distribution) or ()]
            if beside := [name for name in needed if name != CORE and (HERE.parent / "plugins" / name).is_dir()]:
                table[record.distribution]["needs"] = beside
    return json.dumps(dict(sorted(table.items())), indent=1) + "\n"


if __name__ == "__main__":
    (HERE.parent / "lightrl" / "registry" / "known_packages.json").write_text(known_packages())
    for page in HERE.glob("*.md"):
        page.write_text(refreshed(page.read_text()))
    for kind in KINDS.values():
        (HERE / "kinds" / f"{kind.slug}.md").write_text(kind_page(kind))
    (HERE / "nouns.md").write_text(nouns_page())
