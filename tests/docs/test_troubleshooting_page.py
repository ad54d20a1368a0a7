"""The page about troubleshooting: every entry has its run, and what it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lightrl.callbacks.alarms import Alarms

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
WATCHING = (ROOT / "docs" / "watching.md").read_text()
SCRIPT = (ROOT / "benchmarks" / "faults" / "troubleshooting.py").read_text()
ENTRIES = re.findall(r"^    \"(\w+)\": Fault\(", SCRIPT, re.MULTILINE)
NUMBERS = set(re.findall(r"^\| `([\w/]+)` \|", PAGE, re.MULTILINE))


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_fault_of_the_command_has_its_table(entry: str) -> None:
    table = PAGE.partition(f"<!-- run of {entry} -->")[2].partition("<!-- end -->")[0]
    assert table.count("\n| `") >= 5
    raised = re.findall(r"`(\w+)` at rollout \d+", table)
    assert set(raised) <= {alarm.name for alarm in Alarms().alarms}
    assert bool(raised) != ("Alarms of this run: none." in table)


def test_every_entry_says_what_was_planted() -> None:
    sections = PAGE.split("\n## ")[1:]
    assert len(ENTRIES) == len(sections) == 6
    assert [section.partition("\n")[0] for section in sections if "\nPlanted: " not in section or "\n1. `" not in section] == []


def explained(name: str) -> bool:
    """Whether a row of docs/watching.md names the number, alone or after the name that it shares with others of its row."""
    name = re.sub(r"^rewards/\w+/", "rewards/NAME/", name)
    shared, _, last = name.rpartition("/")
    return any(f"`{name}`" in row or (f"`{shared}/" in row and f"`{last}`" in row) for row in WATCHING.splitlines())


def test_every_number_is_explained() -> None:
    assert len(NUMBERS) > 20
    assert not [name for name in NUMBERS if not explained(name)]


def test_its_picture_is_there_and_modest() -> None:
    assert 0 < (ROOT / "docs" / "images" / "troubleshooting.png").stat().st_size < 150_000
