"""Turns in a row: the runs of tokens that the policy sampled, with tokens of others between them."""

from __future__ import annotations

import torch
from torch import Tensor


def turn_starts(mask: Tensor) -> Tensor:
    """`[N, L]` bool: the first token of each turn.

    Args:
        mask: `[N, L]` bool, tokens that the policy sampled.
    """
    before = torch.nn.functional.pad(mask, (1, 0))[:, :-1]
    return mask & ~before


def turn_ends(mask: Tensor) -> Tensor:
    """`[N, L]` bool: the last token of each turn.

    Args:
        mask: `[N, L]` bool, tokens that the policy sampled.
    """
    after = torch.nn.functional.pad(mask, (0, 1))[:, 1:]
    return mask & ~after


def turn_numbers(mask: Tensor) -> Tensor:
    """`[N, L]` int64: which turn of its row a token belongs to, from 0; -1 where others wrote.

    Args:
        mask: `[N, L]` bool, tokens that the policy sampled.
    """
    return torch.where(mask, turn_starts(mask).cumsum(1) - 1, -1)
