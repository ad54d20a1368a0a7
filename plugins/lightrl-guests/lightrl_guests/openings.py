"""How an episode begins: the prompt of the data, and behind it the text of the environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lightrl import Prompt

Said = str | Sequence[dict[str, str]]
"""A text, or messages of a conversation."""


def in_chat(prompt: Prompt) -> Prompt:
    """The prompt; one without a text, as those of `EpisodeSeeds`, becomes an empty message of the user."""
    return replace(prompt, text=None, messages=({"role": "user", "content": ""},)) if prompt.text == "" else prompt


def continued(opening: Said, text: str) -> Said:
    """An opening with a text behind its last message."""
    if isinstance(opening, str):
        return opening + text
    *before, last = opening
    return [*before, {**last, "content": last["content"] + text}]
