"""CONTRIBUTING says where things are, and they are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
LAYOUT = PAGE.partition("## Where things are")[2].partition("```\n")[2].partition("```")[0]


def laid_out() -> set[str]:
    """Every path of the layout, its indentation read as folders."""
    folders: list[tuple[int, str]] = []
    paths = set()
    for line in LAYOUT.splitlines():
        depth = len(line) - len(line.lstrip())
        folders = [(d, folder) for d, folder in folders if d < depth]
        for name in line.strip().partition("  ")[0].split(", "):
            path = "".join(folder for _, folder in folders) + name
            paths.add(path)
            if name.endswith("/"):
                folders.append((depth, name))
    return paths


def test_every_path_of_the_layout_is_there() -> None:
    assert len(laid_out()) > 25
    assert not [path for path in laid_out() if not (ROOT / path).exists()]


def test_the_layout_leaves_out_no_folder() -> None:
    here = {f"lightrl/{folder.name}/" for folder in (ROOT / "lightrl").iterdir() if folder.is_dir() and folder.name[0] not in "._"}
    assert here <= laid_out()


def test_every_file_that_it_names_is_there() -> None:
    named = re.findall(r"`((?:lightrl|tests|docs)/[\w/.]+|pyproject.toml)`", PAGE)
    assert len(named) > 15
    assert not [path for path in named if not (ROOT / path).exists()]
