"""A conversation as a text to be looked at: who wrote what."""

from __future__ import annotations

from lightrl.callbacks.shown_text import code, name_cell, quoted, visible
from lightrl.types import Rollout

POLICY = "policy"
"""The name of the policy among the authors."""


def turns_of(rollout: Rollout, row: int, author: str) -> list[tuple[str, str]]:
    """Author and text of every message of a row, in order.

    Messages before the first turn of the policy have the names of their roles, later ones that of the environment, with the role where it
    is not the user's.

    Args:
        rollout: N rows.
        row: which of them.
        author: the name of the environment.
    """
    found, answered = [], False
    for message in rollout.episode(row).messages:
        role = message["role"]
        if role == "assistant":
            answered = True
            found.append((POLICY, message["content"]))
        elif answered:
            found.append((author if role == "user" else f"{author}, {role}", message["content"]))
        else:
            found.append((role, message["content"]))
    return found


def has_turns(rollout: Rollout) -> bool:
    """Somebody has answered the policy in one of the rows."""
    return any(episode.turns > 1 or episode.messages[-1:] != _last_word(episode.messages) for episode in rollout.episodes)


def markdown(rollout: Rollout, row: int, author: str, limit: int = 2000) -> str:
    """The conversation for a cell of a Markdown table, a message in each line, the policy's name in bold.

    Args:
        rollout: N rows.
        row: which of them.
        author: the name of the environment.
        limit: characters of a message that are shown.
    """
    told = [(f"**{name}**" if name == POLICY else name_cell(name), text) for name, text in turns_of(rollout, row, author)]
    return "<br>".join(f"{name} {code(text, limit)}" for name, text in told)


def lines(rollout: Rollout, row: int, author: str, limit: int = 200) -> str:
    """The conversation for a terminal, a message in each line.

    Args:
        rollout: N rows.
        row: which of them.
        author: the name of the environment.
        limit: characters of a message that are shown.
    """
    turns = [(visible(name), text) for name, text in turns_of(rollout, row, author)]
    width = max(len(name) for name, _ in turns)
    return "\n".join(f"  {'>' if name == POLICY else ' '} {name:<{width}}  {quoted(text, limit)}" for name, text in turns)


def _last_word(messages: tuple[dict[str, str], ...]) -> tuple[dict[str, str], ...]:
    return tuple(message for message in messages[-1:] if message["role"] == "assistant")
