"""One word for one thing, in everything that a person reads: a word that the glossary has replaced does not come back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
ENTRIES = re.findall(r"^\* \*\*(.+?)\*\*: (.+)$", GLOSSARY, re.MULTILINE)

INSTEAD = {
    r"bundles?": "algorithm",
    r"recipes?": "config",
    r"promis(e|es|ed|ing)": "contract, or check",
    r"(un)?informative": "zero variance, or has a signal",
    r"(dead|tied|equal)[ _]groups?": "zero-variance group",
    r"whole[ _]weights?": "gathered weights",
    r"lent": "gathered",
    r"stand_ins?": "dummy",
    r"quarrels?|blames?d?|orphans?|surpris\w+": "a plain word",
}
"""A word that is not used, and the word for the thing."""

ALLOWED = {
    ("plugins/lightrl-dapo/README.md", "recipe"): "the folder of verl that holds DAPO",
}
"""Uses that are right, by file and word, with the reason."""

AREAS = [
    "*.md",
    "Makefile",
    "mkdocs.yml",
    "docs/*.md",
    "configs/**/*.yaml",
    "plugins/*/README.md",
    "examples/**/*.md",
    "examples/**/*.yaml",
    "lightrl/**/*.py",
    "lightrl/**/*.tmpl",
    "plugins/**/*.py",
    "examples/**/*.py",
    "benchmarks/**/*.py",
    "pyproject.toml",
    "plugins/*/pyproject.toml",
]
EXEMPT = {"CHANGELOG.md"}
"""It names what was renamed."""

JUDGES = {"async_reward.py", "given_completions.py"}
"""Files of the core that speak of a language model as a judge."""

FILES = sorted({file for area in AREAS for file in ROOT.glob(area)} - {ROOT / name for name in EXEMPT})


def words_of(text: str) -> str:
    """A text with every name written in one way: `stand-in`, `stand_in` and `StandIn` are `stand_in`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).replace("-", "_").lower()


def wrong_words(file: str, text: str) -> list[str]:
    """Each line with a word that is not used, and the word for it."""
    return [
        f"{file}:{number}: {found[0]!r} is called {instead} here"
        for number, line in enumerate(words_of(text).splitlines(), start=1)
        for word, instead in INSTEAD.items()
        for found in re.finditer(rf"(?<![a-z])({word})(?![a-z])", line)
        if (file, found[0]) not in ALLOWED
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_one_word_for_one_thing(file: Path) -> None:
    assert not wrong_words(str(file.relative_to(ROOT)), file.read_text())


def test_only_a_language_model_is_a_judge() -> None:
    others = {file for file in (ROOT / "lightrl").rglob("*.py") if file.name not in JUDGES}
    assert len(others) > 200
    assert not [str(file) for file in others if re.search(r"(?<![a-z])judg(es?|ed|ing)(?![a-z])", words_of(file.read_text()))]


def test_a_wrong_word_is_noticed_within_a_name_as_well() -> None:
    assert wrong_words("a.md", "the bundle\nits StandIn\nfor dead_group") == [
        "a.md:1: 'bundle' is called algorithm here",
        "a.md:2: 'stand_in' is called dummy here",
        "a.md:3: 'dead_group' is called zero-variance group here",
    ]


def test_what_is_allowed_is_still_there() -> None:
    assert all(word in words_of((ROOT / file).read_text()) for file, word in ALLOWED)


def test_the_glossary_is_in_order_and_short() -> None:
    names = [name.lower() for name, _ in ENTRIES]
    assert names == sorted(names)
    assert len(names) > 30
    assert not [name for name, sentence in ENTRIES if len(sentence.split()) > 40]
    assert len(ENTRIES) == GLOSSARY.count("\n* ")
