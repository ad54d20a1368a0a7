"""Logits, and log-probs of chosen tokens, whose sums over the vocabulary are exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from lightrl_bitwise.layers import multiplied, rounded_weight
from lightrl_bitwise.sums import FINER, bits_for, gradient_unit, rounded, to_multiples

PIECE = 128
"""Tokens of a row whose logits are there at a time, counted from the row's first."""
WEIGHT_UNIT = 2.0**-32
"""Weights of tokens are at most 1, the likeliest one's; these multiples of it add up exactly."""


def weights_of(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """exp(logits - the highest) of `[m, V]`, the `[m, 1]` highest, and the `[m, 1]` logarithms of the sums."""
    highest = logits.amax(-1, keepdim=True)
    weights = to_multiples((logits - highest).exp_(), WEIGHT_UNIT)
    return weights, highest, weights.sum(-1, keepdim=True).log_()


def logprobs_at(logits: Tensor, tokens: Tensor, highest: Tensor, log_sum: Tensor) -> Tensor:
    """`[m]` log-probs of `[m]` tokens, by the numbers of `weights_of`."""
    return (logits.gather(1, tokens[:, None]) - highest - log_sum)[:, 0]


class ChosenLogProbs(Function):
    """Log-probs of tokens under softmax(hidden weight^T + bias, divided by the temperature)."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, temperature: float, counts: Sequence[int]
    ) -> Tensor:
        """`[M]` of `[M, H]`, `[V, H]`, `[V]` and `[M]`; the counts of the rows' tokens add up to M."""
        ctx.save_for_backward(hidden, weight, bias, targets)
        ctx.temperature, ctx.counts = temperature, counts
        ready, found = rounded_weight(weight), hidden.new_empty(len(hidden))
        for part in pieces(counts):
            logits = multiplied(hidden[part], ready, bias).div_(temperature)
            found[part] = logprobs_at(logits, targets[part], *weights_of(logits)[1:])
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, targets = ctx.saved_tensors
        wants_hidden, wants_weight, wants_bias = ctx.needs_input_grad[:3]
        ready, across, bits = rounded_weight(weight), rounded(weight, 0, bits_for(len(weight)) - FINER), bits_for(len(weight)) + FINER
        d_hidden = torch.empty_like(hidden) if wants_hidden else None
        d_weight = torch.zeros_like(weight) if wants_weight else None
        d_bias = torch.zeros_like(bias) if bias is not None and wants_bias else None
        unit = gradient_unit()
        for part in pieces(ctx.counts):
            logits = multiplied(hidden[part], ready, bias).div_(ctx.temperature)
            weights, _, log_sum = weights_of(logits)
            g = weights.div_(log_sum.exp()).mul_(-grad[part, None])
            g.scatter_add_(1, targets[part, None], grad[part, None]).div_(ctx.temperature)
            if d_hidden is not None:
                d_hidden[part] = rounded(g, -1, bits) @ across
            if d_weight is not None:
                of_tokens = bits_for(PIECE)
                d_weight += to_multiples(rounded(g, 0, of_tokens).T @ rounded(hidden[part], 0, of_tokens), unit)
            if d_bias is not None:
                d_bias += to_multiples(g, unit).sum(0)
        return d_hidden, d_weight, d_bias, None, None, None


chosen_logprobs: Callable[..., Tensor] = ChosenLogProbs.apply


def pieces(counts: Sequence[int]) -> Iterator[slice]:
    """The tokens of each row, a few at a time: how a row is cut does not depend on the others."""
    begin = 0
    for count in counts:
        for first in range(0, count, PIECE):
            yield slice(begin + first, begin + min(first + PIECE, count))
        begin += count
