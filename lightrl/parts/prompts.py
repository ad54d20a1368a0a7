"""Prompt sources: where do prompts come from?"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from hashlib import blake2b

from lightrl.parts.base import Part
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


class PromptSource(Part):
    """A numbered collection of prompts: the same index gives the same prompt, always.

    A source keeps no position; order, epochs, sharding over ranks and the state of a resume belong to the stream that
    reads it (`lightrl.data.stream`).
    """

    @property
    @abstractmethod
    def size(self) -> int | None:
        """How many prompts there are; None if there is no end."""

    @abstractmethod
    def prompt(self, index: int) -> Prompt:
        """The prompt with this number, 0 <= index < size; its id is unique among all indices."""

    def place(self, index: int) -> str:
        """Where the prompt with this number stands, for messages: `train.jsonl:17` of a file."""
        return f"prompt {index} of {type(self).__name__}"

    def content(self, index: int) -> str:
        """16 hexadecimal digits, equal for prompts with the same text or messages; a source that knows them need not make the prompt."""
        return content_hash(self.prompt(index))

    def part(self, index: int) -> str:
        """The name of the part that the prompt with this number belongs to, where `shares` names parts."""
        return ""

    def shares(self, drawn: int) -> Mapping[str, float]:
        """The share of each part by name, adding up to 1, in what is drawn next; empty: all prompts are in one order."""
        return {}

    def prepare(self) -> None:
        """Read files, before the first prompt is asked for; a ValueError names the file, the line and the field of what is malformed."""
