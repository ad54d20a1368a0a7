"""Passes over rows that go on with smaller micro-batches where memory does not suffice."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from lightrl.rows import Sequences
from lightrl.training.steps.token_budget import TokenBudget

T = TypeVar("T")


def nothing() -> None:
    """A pass has left nothing behind."""


class FittingPasses:
    """Runs passes over rows in micro-batches, and all of them again in smaller ones if one of them lacks memory.

    No result depends on how rows are cut, so that it is that of a run with enough memory.
    """

    def __init__(self, budget: TokenBudget, cut: Callable[[Sequences], list[Tensor]], restarts: bool) -> None:
        """
        Args:
            budget: tokens of a micro-batch; what is found out about them stays for the rest of the run.
            cut: the rows of each micro-batch within the budget.
            restarts: passes that have failed can be run again; False: a lack of memory ends the run.
        """
        self._budget, self._cut, self._restarts = budget, cut, restarts

    def run(self, sequences: Sequences, act: Callable[[list[Tensor]], T], undo: Callable[[], None] = nothing) -> T:
        """The outcome of passes over all rows.

        Args:
            sequences: of the rows, on the CPU.
            act: makes the passes over the rows of these micro-batches.
            undo: removes what passes that failed have left behind.

        Raises:
            torch.OutOfMemoryError: micro-batches cannot be smaller, or the passes cannot be run again.
        """
        before: str | None = None
        while True:
            cuts = self._cut(sequences)
            try:
                found = act(cuts)
            except torch.OutOfMemoryError:
                if not self._restarts or self._budget.tokens == 1 or max(map(len, cuts), default=0) <= 1:
                    raise
            else:
                if before is not None:
                    self._say(before)
                return found
            # not before the error is gone, whose frames hold the tensors of the pass
            undo()
            if torch.accelerator.is_available():
                torch.accelerator.empty_cache()
            before = before or ("of all rows at once" if self._budget.tokens is None else f"of {self._budget.tokens:,} tokens")
            self._shrink(sequences, len(cuts))

    def _shrink(self, sequences: Sequences, passes: int) -> None:
        """Halve the budget until there are more passes."""
        while self._budget.tokens != 1 and len(self._cut(sequences)) <= passes:
            self._budget.halve(int(sequences.lengths.sum()))

    def _say(self, before: str) -> None:
        warnings.warn(
            f"the memory did not suffice for micro-batches {before}: from here on they have {self._budget.tokens:,}, with the same "
            f"gradient.\nTo begin with them: --model.micro_batch_tokens {self._budget.tokens}",
            stacklevel=3,
        )
