"""Drawing tokens from logits; the weights of all tokens add up exactly, so that equal logits give equal tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from lightrl import Sampling
from lightrl_bitwise.scoring import logprobs_at, weights_of


def drawn(logits: Tensor, uniform: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """`[n]` tokens and their `[n]` float32 log-probs over the whole vocabulary, at temperature 1 where the likeliest is taken.

    Args:
        logits: `[n, V]`, which are written over.
        uniform: `[n]` in [0, 1), float64; decides what is drawn.
    """
    greedy = sampling.temperature == 0
    weights, highest, log_sum = weights_of(logits.div_(1.0 if greedy else sampling.temperature))
    kept = (logits == highest).double() if greedy else _truncated(weights, sampling)
    summed = kept.cumsum(-1)
    target = (0.0 if greedy else 1.0) * uniform[:, None] * summed[:, -1:]
    # the first token whose cumulated weight is above the target, and so never one of weight 0
    tokens = torch.searchsorted(summed, target, right=True)[:, 0].clamp(max=logits.shape[-1] - 1)
    return tokens, logprobs_at(logits, tokens, highest, log_sum).float()


def _truncated(weights: Tensor, sampling: Sampling) -> Tensor:
    """0 for what top-k, then top-p, then min-p leave out."""
    if 0 < sampling.top_k < weights.shape[-1]:
        weights = weights.where(weights >= weights.topk(sampling.top_k).values[:, -1:], 0.0)
    if sampling.top_p < 1:
        falling = weights.sort(-1, descending=True).values
        before = falling.cumsum(-1) - falling
        count = (before < sampling.top_p * weights.sum(-1, keepdim=True)).sum(-1, keepdim=True)
        weights = weights.where(weights >= falling.gather(1, count - 1), 0.0)
    return weights.where(weights >= sampling.min_p * weights.amax(-1, keepdim=True), 0.0)
