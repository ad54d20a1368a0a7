"""Texts and conversations of others as they are shown: nothing in them breaks a line, ends a cell, or commands a terminal."""

from __future__ import annotations

import json
import re

from lightrl.types import Prompt, Rollout

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
    return cut(in_quotes(text), limit, len(text))


def cut(text: str, limit: int, length: int | None = None) -> str:
    """A text of at most so many characters, which otherwise says how many there were."""
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text) if length is None else length} characters)"


def code(text: str, limit: int = 1000) -> str:
    """A text as code in a cell of a Markdown table, cut to so many characters."""
    return "`" + visible(cut(text, limit)).replace("`", "'").replace("|", "\\|") + "`"


def prompt_text(prompt: Prompt) -> str:
    """The prompt as it was asked, the last message of a conversation."""
    return prompt.text if prompt.text is not None else (prompt.messages or ({"content": ""},))[-1]["content"]


def name_cell(text: str) -> str:
    """A name that data give, such as a role, as plain words in a cell of a Markdown table."""
    return _MARKDOWN.sub(lambda found: f"&#{ord(found[0])};", visible(text))


POLICY = "policy"
"""The name of the policy among the authors."""


def turns_of(rollout: Rollout, row: int, author: str) -> list[tuple[str, str]]:
    """Author and text of every message of a row, in order.

    Messages before the first turn of the policy have the names of their roles, later ones that of the environment, with the role where it
    is not the user's.
    """
    found, answered = [], False
    for message in rollout.episode(row).messages:
        role = message["role"]
        answered = answered or role == "assistant"
        other = role if not answered else author if role == "user" else f"{author}, {role}"
        found.append((POLICY if role == "assistant" else other, message["content"]))
    return found


def has_turns(rollout: Rollout) -> bool:
    """Somebody has answered the policy in one of the rows."""
    return any(e.turns > 1 or any(last["role"] != "assistant" for last in e.messages[-1:]) for e in rollout.episodes)


def markdown(rollout: Rollout, row: int, author: str, limit: int = 2000) -> str:
    """The conversation for a cell of a Markdown table, a message in each line, the policy's name in bold."""
    told = [(f"**{name}**" if name == POLICY else name_cell(name), text) for name, text in turns_of(rollout, row, author)]
    return "<br>".join(f"{name} {code(text, limit)}" for name, text in told)


def lines(rollout: Rollout, row: int, author: str, limit: int = 200) -> str:
    """The conversation for a terminal, a message in each line."""
    turns = [(visible(name), text) for name, text in turns_of(rollout, row, author)]
    width = max(len(name) for name, _ in turns)
    return "\n".join(f"  {'>' if name == POLICY else ' '} {name:<{width}}  {quoted(text, limit)}" for name, text in turns)
