"""Turns in a row: the runs of tokens that the policy sampled (`mask`, `[N, L]` bool), with tokens of others between them."""

from __future__ import annotations

import torch
from torch import Tensor


def turn_starts(mask: Tensor) -> Tensor:
    """`[N, L]` bool: the first token of each turn."""
    before = torch.nn.functional.pad(mask, (1, 0))[:, :-1]
    return mask & ~before


def turn_ends(mask: Tensor) -> Tensor:
    """`[N, L]` bool: the last token of each turn."""
    after = torch.nn.functional.pad(mask, (0, 1))[:, 1:]
    return mask & ~after


def turn_numbers(mask: Tensor) -> Tensor:
    """`[N, L]` int64: which turn of its row a token belongs to, from 0; -1 where others wrote."""
    return torch.where(mask, turn_starts(mask).cumsum(1) - 1, -1)


def turn_sums(values: Tensor, mask: Tensor) -> Tensor:
    """`[N, L]`: the sum of the values of each turn on its first token, 0 elsewhere. `values`: `[N, L]`; anything outside the mask."""
    counted = torch.where(mask, values, 0.0)
    sums = torch.zeros_like(counted).scatter_add(1, _first_of(mask), counted)
    return torch.where(turn_starts(mask), sums, 0.0)


def over_turns(values: Tensor, mask: Tensor) -> Tensor:
    """`[N, L]`: what `values`, `[N, L]`, has at the first token of each turn, on all tokens of the turn; 0 where others wrote."""
    return torch.where(mask, values.gather(1, _first_of(mask)), 0.0)


def _first_of(mask: Tensor) -> Tensor:
    """`[N, L]` int64: the position at which the last turn that has begun begins; 0 before the first one."""
    positions = torch.arange(mask.shape[1], device=mask.device)
    return torch.where(turn_starts(mask), positions, 0).cummax(1).values
