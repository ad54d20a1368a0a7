"""Passes over rows in micro-batches, and in smaller ones where memory does not suffice.

Packed tokens are counted where rows are packed, and padded ones where they are not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from lightrl.ops.batching import filled_batches, micro_batches, packed_batches
from lightrl.ops.prefix_tree import sorted_rows
from lightrl.rows import Sequences
from lightrl.training.steps.token_budget import TokenBudget

T = TypeVar("T")


def nothing() -> None:
    """A pass has left nothing behind."""


class FittingPasses:
    """Runs passes over rows in micro-batches, and all of them again in smaller ones if one of them lacks memory.

    No result depends on how rows are cut, so that it is that of a run with enough memory.
    """

    def __init__(self, budget: TokenBudget, longest_packed: int, restarts: bool) -> None:
        """
        Args:
            budget: tokens of a micro-batch; what is found out about them stays for the rest of the run.
            longest_packed: the longest sequence with which sequences are packed; 0: none.
            restarts: passes that have failed can be run again; False: a lack of memory ends the run.
        """
        self._budget, self._longest_packed, self._restarts = budget, longest_packed, restarts

    def cut(self, sequences: Sequences) -> list[Tensor]:
        """The rows of each micro-batch within the budget."""
        return cut_rows(sequences.to("cpu"), self._budget.tokens, self._longest_packed)

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
            cuts = self.cut(sequences)
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
        while self._budget.tokens != 1 and len(self.cut(sequences)) <= passes:
            self._budget.halve(int(sequences.lengths.sum()))

    def _say(self, before: str) -> None:
        warnings.warn(
            f"the memory did not suffice for micro-batches {before}: from here on they have {self._budget.tokens:,}, with the same "
            f"gradient.\nTo begin with them: --model.micro_batch_tokens {self._budget.tokens}",
            stacklevel=3,
        )


def cut_rows(sequences: Sequences, budget: int | None, longest_packed: int) -> list[Tensor]:
    """Cut the rows of a rank into micro-batches, all sequences of a row in one.

    Args:
        sequences: of N rows, on the CPU.
        budget: tokens of a micro-batch; None: all at once.
        longest_packed: the longest sequence with which sequences are packed; 0: none.

    Returns:
        Index tensors that cover every row once, the most tokens first, so that a lack of memory shows at once.
    """
    longest = sequences.longest()
    most = len(sequences.row) and int(sequences.row.bincount().max())
    if max(longest.tolist(), default=0) > longest_packed:
        return micro_batches(longest, None if budget is None else budget // most)
    if most <= 1:
        return packed_batches(sequences.input_ids, sequences.lengths, budget)
    return filled_batches(torch.tensor([_tokens(sequences, row) for row in range(len(longest))]), budget)


def _tokens(sequences: Sequences, row: int) -> int:
    chosen = (sequences.row == row).nonzero()[:, 0]
    rows = sorted_rows(sequences.input_ids[chosen], sequences.lengths[chosen].tolist())
    return rows.tokens(0, len(rows.order))
