"""Policy and data of the cases with a real model: a GGUF file as a plain folder, and questions and texts from the pages of docs/."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

from benchmarks import ROOT
from benchmarks.speed.bench_cases import Examples, Rollouts

TERM = re.compile(r"^\* \*\*(.+?)\*\*: ", re.MULTILINE)
SECTION = re.compile(r"^#+ ([^\n]+)\n\n([A-Z][^|]*?)\n\n", re.MULTILINE)
"""A heading, and the paragraph under it."""
SHORTEST = 40
"""Letters of a paragraph that says something."""


def write_real_policy(folder: Path, file: Path) -> None:
    """Write a GGUF file as a Hugging Face folder in float32, so that both sides read the same weights.

    Raises:
        SystemExit: there is no such file.
    """
    from lightrl import PretrainedPolicy

    if not file.is_file():
        raise SystemExit(f"there is no GGUF file {str(file)!r}\nType: make bench CASE=real, which downloads one, or takes MODEL=x.gguf")
    unfinished = folder.with_name(f"{folder.name}.part")
    unfinished.mkdir(parents=True, exist_ok=True)
    PretrainedPolicy(str(file)).build().save(unfinished)
    unfinished.rename(folder)


def write_real_data(file: Path, case: Rollouts | Examples) -> None:
    """Write what a case reads, as a line of JSON each: the user's turn in `prompt`, and answers of the assistant."""
    rows = questions() if isinstance(case, Rollouts) else texts()
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def questions() -> list[dict[str, str]]:
    """Open questions, whose answers vary in length."""
    terms = TERM.findall((ROOT / "docs" / "glossary.md").read_text())
    return [{"prompt": f"Explain in one sentence what this word means: {term}"} for term in terms]


def texts() -> list[dict[str, str]]:
    """Headings with the paragraph under them, and with that under another one."""
    pages = "\n".join(page.read_text() for page in sorted((ROOT / "docs").glob("*.md")))
    found = [(heading, text.replace("\n", " ")) for heading, text in SECTION.findall(pages) if len(text) >= SHORTEST]
    random.Random(0).shuffle(found)
    others = [text for _, text in found[1:] + found[:1]]
    return [
        {"prompt": f"What is to be known about this: {heading}", "completion": text, "chosen": text, "rejected": other}
        for (heading, text), other in zip(found, others, strict=True)
    ]
