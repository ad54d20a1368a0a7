"""The content of a prompt, which makes two prompts the same: its text or its messages."""

from __future__ import annotations

import json
from hashlib import blake2b

from lightrl.types import JSON, Prompt

_WRITTEN = json.JSONEncoder(sort_keys=True).encode


def content_hash(prompt: Prompt) -> str:
    """16 hexadecimal digits that depend on the prompt's text or messages and on nothing else.

    Those of an empty prompt depend on its id and columns: these decide which episode an environment begins.
    """
    seen: list[JSON] = [prompt.text, None if prompt.messages is None else list(prompt.messages)]
    if is_empty(prompt):
        seen += [prompt.id, dict(prompt.columns)]
    if prompt.rendered:
        seen.append("rendered")
    return blake2b(_WRITTEN(seen).encode(), digest_size=8).hexdigest()


def is_empty(prompt: Prompt) -> bool:
    """Whether it has no text and no message."""
    return not prompt.text and not prompt.messages
