"""The largest of numbers that several processes hold, each of which learns which of its own are among them."""

from __future__ import annotations

import torch
from torch import Tensor

from lightrl.ranks import ALONE, Ranks


def largest(values: Tensor, mask: Tensor, count: int, uniforms: Tensor, ranks: Ranks = ALONE) -> Tensor:
    """Which tokens hold the `count` largest values of all ranks; collective.

    Values that differ by rounding alone, as those of the same token in another micro-batch do, are equal: of them the smallest random
    numbers go first. So the choice depends neither on the order of rows, nor on how they are cut or shared out.

    Args:
        values: `[n, L]`; anything where the mask is False.
        mask: `[n, L]` bool, tokens that may be chosen.
        count: of tokens over all ranks, the same on each; all where there are fewer.
        uniforms: `[n, L]` random numbers.
        ranks: that hold the other tokens.

    Returns:
        `[n, L]` bool.
    """
    keys, numbers = _rounded(values[mask]), uniforms[mask]
    order = _order(keys, numbers)[: max(count, 0)]
    every = ranks.gather((keys[order].cpu(), numbers[order].cpu()))
    all_keys, all_numbers = (torch.cat([found[i] for found in every]) for i in range(2))
    chosen = torch.zeros_like(mask)
    last = _order(all_keys, all_numbers)[: max(count, 0)][-1:].tolist()
    if last:
        key, number = all_keys[last[0]].to(keys), all_numbers[last[0]].to(numbers)
        chosen[mask] = (keys > key) | ((keys == key) & (numbers <= number))
    return chosen


def _order(keys: Tensor, numbers: Tensor) -> Tensor:
    """Indices by falling key, and among equal keys by rising number."""
    by_number = torch.argsort(numbers, stable=True)
    return by_number[torch.argsort(keys[by_number], descending=True, stable=True)]


def _rounded(values: Tensor) -> Tensor:
    """The values with half of the digits that their type has."""
    mantissa, exponent = torch.frexp(values)
    scale = torch.finfo(values.dtype).eps ** -0.5
    return torch.ldexp((mantissa * scale).round() / scale, exponent)
