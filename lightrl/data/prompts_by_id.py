"""Prompts of a source by their ids, found without keeping the ids."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from lightrl.data.progress import shown
from lightrl.parts.prompts import PromptSource
from lightrl.types import Prompt

BYTES = 8
"""Of the hash that is kept of an id, beside its number."""


class PromptsById:
    """The prompts of a sized source by id: 16 bytes for each, after one way through all of them."""

    def __init__(self, source: PromptSource) -> None:
        """
        Args:
            source: sized.

        Raises:
            ValueError: the source is endless.
        """
        if source.size is None:
            raise ValueError(
                "an endless training source has no prompts by id: give a source with a size, or a sampler that draws all prompts"
            )
        self._source = source
        hashes = b"".join(_hash(source.prompt(index).id) for index in shown(range(source.size), "numbering prompts"))
        found = np.frombuffer(hashes, np.uint64)
        self._order = np.argsort(found, kind="stable")
        self._hashes = found[self._order]

    def prompt(self, name: str) -> Prompt:
        """The prompt with this id.

        Args:
            name: the id.

        Raises:
            ValueError: there is none.
        """
        wanted = np.frombuffer(_hash(name), np.uint64)[0]
        low, high = (int(np.searchsorted(self._hashes, wanted, side)) for side in ("left", "right"))
        for index in self._order[low:high].tolist():
            prompt = self._source.prompt(index)
            if prompt.id == name:
                return prompt
        raise ValueError(
            f"none of the {self._source.size} training prompts has the id {name!r}; the first one's is {self._source.prompt(0).id!r}"
        )


def _hash(name: str) -> bytes:
    return blake2b(name.encode(), digest_size=BYTES).digest()
