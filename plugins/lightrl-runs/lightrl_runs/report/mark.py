"""The mark by which a page is known as a report."""

from __future__ import annotations

from pathlib import Path

GENERATOR = "lightrl report"
_AT_THE_TOP = 1000
"""Bytes of a page in which the mark stands."""


def is_report(file: Path) -> bool:
    """The file is a page that `lightrl report` has made."""
    if not file.is_file():
        return False
    with file.open("rb") as page:
        return f'<meta name="generator" content="{GENERATOR}">'.encode() in page.read(_AT_THE_TOP)
