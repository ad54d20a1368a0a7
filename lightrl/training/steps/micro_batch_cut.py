"""Which rows make a micro-batch: packed tokens are counted where rows are packed, and padded ones where they are not."""

from __future__ import annotations

import torch
from torch import Tensor

from lightrl.ops.batching import filled_batches, micro_batches, packed_batches
from lightrl.ops.prefix_tree import sorted_rows
from lightrl.rows import Sequences


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
