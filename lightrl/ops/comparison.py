"""Scores that are compared in pairs: how unlikely the comparison was, and whether the likelihoods are to be trusted."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


def bradley_terry(better: Tensor, worse: Tensor, margin: Tensor | float = 0.0) -> Tensor:
    """`[P]` negative log-likelihoods of comparisons, -log sigmoid(better - worse - margin).

    Args:
        better: `[P]` scores of what was preferred.
        worse: `[P]` scores of what it was preferred to.
        margin: `[P]`, by how much the better one should lead.

    Source: Bradley and Terry 1952; with a margin Touvron et al. 2023 (Llama 2), arXiv:2307.09288, eq. 2.
    """
    return -logsigmoid(better - worse - margin)


def right_order(difference: Tensor) -> Tensor:
    """`[P]` 1 where the better one leads, 1/2 where both score alike, 0 elsewhere; of `[P]` differences better - worse."""
    return (difference.sign() + 1) / 2


def confidence(difference: Tensor) -> Tensor:
    """`[P]` in [1/2, 1]: the probability that the model gives to the completion it scores higher."""
    return torch.sigmoid(difference.abs())


def confidence_bin(difference: Tensor, bins: int) -> Tensor:
    """`[P]` int64: which of `bins` equal parts of [1/2, 1] the confidence lies in."""
    return ((confidence(difference) - 0.5) * 2 * bins).long().clamp(max=bins - 1)
