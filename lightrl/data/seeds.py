"""Prompts for environments that bring their own opening."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le

from lightrl.parts.prompts import PromptSource
from lightrl.prompt import JSON, Prompt


class EpisodeSeeds(PromptSource):
    """Empty prompts with the ids 0, 1, ...: each of them begins another episode, since an environment's seed follows from the id."""

    def __init__(self, size: Annotated[int, Ge(1), Le(10_000_000)] = 100_000, columns: dict[str, JSON] | None = None) -> None:
        """
        Args:
            size: how many of them; at least 1.
            columns: columns that every prompt has, by name; null: none.

        Raises:
            ValueError: fewer than one.
        """
        self._size, self.columns = size, dict(columns or {})

    @property
    def size(self) -> int:
        return self._size

    def prompt(self, index: int) -> Prompt:
        return Prompt(id=str(index), text="", columns=self.columns)
