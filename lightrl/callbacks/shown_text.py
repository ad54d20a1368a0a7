"""Texts of others as they are shown: nothing in them breaks a line, ends a cell of a table, or commands a terminal."""

from __future__ import annotations

import json
import re

_MARKDOWN = re.compile(r"[^\w ,.\-]")


def visible(text: str) -> str:
    """The text with an escape such as `\\x1b` or `\\u202e` in place of each character that cannot be seen; line breaks are ⏎.

    Carriage returns and other breaks would end a row of a table, terminals obey control characters, and half of a surrogate pair cannot
    be written at all.
    """
    return "".join(
        character if character.isprintable() else "⏎" if character == "\n" else character.encode("unicode_escape").decode()
        for character in text
    )


def in_quotes(text: str) -> str:
    """A text in quotation marks in one line."""
    return visible(json.dumps(text, ensure_ascii=False))


def quoted(text: str, limit: int = 200) -> str:
    """A text in quotation marks in one line, cut to so many characters."""
    whole = in_quotes(text)
    return whole if len(whole) <= limit else f"{whole[:limit]}... ({len(text)} characters)"


def code(text: str, limit: int = 1000) -> str:
    """A text as code in a cell of a Markdown table, cut to so many characters."""
    cut = text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"
    return "`" + visible(cut).replace("`", "'").replace("|", "\\|") + "`"


def name_cell(text: str) -> str:
    """A name that data give, such as a role, as plain words in a cell of a Markdown table."""
    return _MARKDOWN.sub(lambda found: f"&#{ord(found[0])};", visible(text))
