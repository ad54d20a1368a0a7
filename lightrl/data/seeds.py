"""Prompts for environments that bring their own opening."""

from __future__ import annotations

from lightrl.parts.prompts import PromptSource
from lightrl.prompt import JSON, Prompt


class EpisodeSeeds(PromptSource):
    """Empty prompts with the ids 0, 1, ...: each of them begins another episode, since an environment's seed follows from the id."""

    def __init__(self, size: int = 100_000, columns: dict[str, JSON] | None = None) -> None:
        """
        Args:
            size: how many of them; at least 1.
            columns: columns that every prompt has, by name; null: none.

        Raises:
            ValueError: fewer than one.
        """
        if size < 1:
            raise ValueError(f"EpisodeSeeds needs size >= 1, got {size}")
        self._size, self.columns = size, dict(columns or {})

    @property
    def size(self) -> int:
        return self._size

    def prompt(self, index: int) -> Prompt:
        return Prompt(id=str(index), text="", columns=self.columns)
