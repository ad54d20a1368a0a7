"""Rows of given data, as a step learns from them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lightrl.rows import Rows, Sequences


@dataclass(kw_only=True)
class OfflineRows(Rows):
    """Rows that are cut into micro-batches by their lengths."""

    lengths: Tensor
    """`[N]` int64: tokens of each row; of the longest, where a row holds several sequences."""

    def __len__(self) -> int:
        return len(self.lengths)


@dataclass(kw_only=True)
class SingleRows(OfflineRows):
    """Rows of one sequence each."""

    input_ids: Tensor
    """`[N, L]` int64, padded on the right."""

    def sequences(self) -> Sequences:
        """One for each row."""
        return Sequences(self.input_ids, self.lengths, torch.arange(len(self)))
