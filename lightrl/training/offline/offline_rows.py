"""Rows of given data, as a step learns from them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from lightrl.types import Rows


@dataclass(kw_only=True)
class OfflineRows(Rows):
    """Rows that are cut into micro-batches by their lengths."""

    lengths: Tensor
    """`[N]` int64: tokens of each row; of the longest, where a row holds several sequences."""

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def sequences(self) -> int:
        """Sequences of tokens in one row: a pair has two."""
        return 1
