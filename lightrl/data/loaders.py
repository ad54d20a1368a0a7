"""The loaders that Lightning iterates over: numbers of steps while training, batches of prompts while evaluating."""

from __future__ import annotations

from collections.abc import Iterator

from lightrl.parts.prompts import PromptSource
from lightrl.types import JSON, Prompt


class StepNumbers:
    """The numbers of the steps of an epoch; each step draws its prompts itself. Goes on in mid-epoch after a resume."""

    def __init__(self, count: int) -> None:
        """`count`: training steps per Lightning epoch."""
        self.count = count
        self._done = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        for step in range(self._done, self.count):
            # a reader that knows the length never asks for the end, so the last step already begins the next epoch
            self._done = (step + 1) % self.count
            yield step

    def state_dict(self) -> dict[str, JSON]:
        """The number of steps of the present epoch that are over."""
        return {"done": self._done}

    def load_state_dict(self, state: dict[str, JSON]) -> None:
        """Go on after that many steps."""
        self._done = state["done"]


class PromptBatch:
    """Prompts to be evaluated together; a plain object, since Lightning converts the members of lists and refuses frozen dataclasses."""

    def __init__(self, prompts: list[Prompt]) -> None:
        """`prompts`: of this rank; may be empty."""
        self.prompts = prompts


class PromptBatches:
    """Batches of prompts for evaluation: every prompt on exactly one rank, the same number of batches on all of them."""

    def __init__(self, source: PromptSource, batch_size: int, rank: int, world_size: int) -> None:
        """
        Args:
            batch_size: prompts per batch and rank.
            world_size: number of processes; the last batch may be shorter, even empty, on some.
        """
        self.source, self.batch_size, self.rank, self.world_size = source, batch_size, rank, world_size

    def __len__(self) -> int:
        return -(-(self.source.size or 0) // (self.batch_size * self.world_size))

    def __iter__(self) -> Iterator[PromptBatch]:
        size, block = self.source.size or 0, self.batch_size * self.world_size
        for start in range(0, size, block):
            yield PromptBatch([self.source.prompt(i) for i in range(start + self.rank, min(start + block, size), self.world_size)])
