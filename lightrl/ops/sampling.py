"""Drawing tokens from logits with given uniform numbers, and the log-probs of what was drawn."""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 1024
"""Weights that are summed up one by one; a larger vocabulary is first searched block by block."""
AT_ONCE = {"cpu": 1 << 20}
"""Logits, by type of device, of which so many at a time stay in its caches and in memory that need not be asked for anew."""


def sample(
    logits: Tensor, uniform: Tensor, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0
) -> tuple[Tensor, Tensor]:
    """One token per row from softmax(logits / temperature), truncated by top-k, then top-p, then min-p.

    The log-prob is log-softmax(logits / temperature) over the whole vocabulary, also where the draw was truncated.

    Args:
        logits: `[n, V]`.
        uniform: `[n]` float64 in [0, 1); decides what is drawn.
        temperature: divides the logits; 0 takes the likeliest token, with its log-prob at temperature 1.
        top_k: keep this many of the likeliest tokens (all that tie with the last one); 0 keeps all.
        top_p: keep the likeliest tokens whose probabilities add up to this; in (0, 1].
        min_p: keep tokens at least this likely relative to the likeliest; in [0, 1).

    Returns:
        `[n]` int64 tokens and `[n]` log-probs in float32 or the logits' own type if that is wider. NaN logits give NaN log-probs.
    """
    at_once = AT_ONCE.get(logits.device.type, logits.numel())
    if logits.numel() > at_once and len(logits) > 1:
        rows = max(1, at_once // logits.shape[-1])
        parts = zip(torch.split(logits, rows), torch.split(uniform, rows), strict=True)
        drawn = [sample(*part, temperature, top_k, top_p, min_p) for part in parts]
        return torch.cat([chosen for chosen, _ in drawn]), torch.cat([logprobs for _, logprobs in drawn])
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if temperature not in (0.0, 1.0):
        logits = logits / temperature
    highest = logits.amax(-1, keepdim=True)
    weights = (logits - highest).exp_()
    sums = _block_sums(weights)
    if temperature == 0:
        tokens = logits.argmax(-1)
    else:
        kept = truncate(weights, top_k, top_p, min_p)
        tokens = _drawn(kept, sums if kept is weights else _block_sums(kept), uniform)
    chosen = logits.gather(1, tokens[:, None])
    return tokens, (chosen - highest)[:, 0] - sums.sum(-1).log().to(logits.dtype)


def truncate(weights: Tensor, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0) -> Tensor:
    """The weights with 0 for every token that is not to be drawn.

    Args:
        weights: `[n, V]` probabilities times any factor of the row's own.
        top_k: keep this many, and those that tie with the last of them; 0 keeps all.
        top_p: drop the least likely tokens as long as those dropped add up to at most 1 - top_p of what top-k left.
        min_p: drop what is less than this fraction of the likeliest.

    Source: the logits processors of Hugging Face transformers, in their order; Fan et al. 2018, arXiv:1805.04833 (top-k);
    Holtzman et al. 2019, arXiv:1904.09751 (top-p); Nguyen et al. 2024, arXiv:2407.01082 (min-p).
    """
    if 0 < top_k < weights.shape[-1]:
        kth = weights.topk(top_k).values[:, -1:]
        weights = torch.where(weights < kth, 0.0, weights)
    if top_p < 1:
        weights = torch.where(_nucleus(weights, top_p), weights, 0.0)
    if min_p > 0:
        weights = torch.where(weights < min_p * weights.amax(-1, keepdim=True), 0.0, weights)
    return weights


def _nucleus(weights: Tensor, top_p: float) -> Tensor:
    """`[n, V]` bool: a token stays if those before it, in falling order, have not reached `top_p` of the total."""
    reach = top_p * weights.sum(-1, keepdim=True, dtype=torch.float64)
    vocabulary = weights.shape[-1]
    # an accelerator sorts them all at once, since to ask whether these suffice is to wait for it
    size = min(BLOCK, vocabulary) if weights.device.type == "cpu" else vocabulary
    falling = weights.topk(size).values
    # of a peaked distribution a few suffice, and nothing else has to be sorted
    while size < vocabulary and (falling.sum(-1, keepdim=True, dtype=torch.float64) < reach).any():
        size = min(16 * size, vocabulary)
        falling = weights.topk(size).values
    before = falling.cumsum(-1, dtype=torch.float64) - falling
    count = (before < reach).sum(-1, keepdim=True).clamp(min=1)
    least = falling.gather(1, count - 1)
    above, level = weights > least, weights == least
    # of tokens that tie for the last places the first ones stay, so that no sort decides
    return above | (level & (level.cumsum(-1) <= count - above.sum(-1, keepdim=True)))


def _block_sums(weights: Tensor) -> Tensor:
    """`[n, ceil(V / BLOCK)]` sums of neighbours, in float64 where there are several."""
    if weights.shape[-1] <= BLOCK:
        return weights.sum(-1, keepdim=True)
    whole = weights.shape[-1] // BLOCK * BLOCK
    blocks, rest = weights[:, :whole].view(len(weights), -1, BLOCK), weights[:, whole:]
    return torch.cat([part.sum(-1) for part in (blocks, rest[:, None]) if part.numel()], 1).double()


def _drawn(weights: Tensor, sums: Tensor, uniform: Tensor) -> Tensor:
    """`[n]` int64: the first index whose cumulated weight exceeds uniform times the row's total; never one of weight 0.

    Sums are kept in float64 over at most `BLOCK` numbers, so that the far tail of a large vocabulary keeps its probability.
    """
    vocabulary = weights.shape[-1]
    if vocabulary <= BLOCK:
        return _search(weights.double(), uniform)[0][:, 0]
    block, within = _search_within(sums, uniform)
    indices = block[:, None] * BLOCK + torch.arange(BLOCK, device=weights.device)
    inside = weights.gather(1, indices.clamp(max=vocabulary - 1)).double()
    index, _, _ = _search(torch.where(indices < vocabulary, inside, 0.0), within)
    return block * BLOCK + index[:, 0]


def _search(weights: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`[n, 1]` chosen indices; the `[n, V]` sums and `[n, 1]` targets that decided."""
    cumulated = weights.cumsum(-1)
    target = uniform[:, None] * cumulated[:, -1:]
    index = torch.searchsorted(cumulated, target, right=True).clamp(max=weights.shape[-1] - 1)
    chosen = weights.gather(1, index)
    # a parallel scan need not be monotonic in its last bits: what has no weight is never drawn
    return torch.where(chosen > 0, index, weights.argmax(-1, keepdim=True)), cumulated, target


def _search_within(weights: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """The chosen index, and how far into its own weight the uniform number falls, as a new number in [0, 1)."""
    index, cumulated, target = _search(weights, uniform)
    own = weights.gather(1, index)
    before = cumulated.gather(1, index) - own
    within = ((target - before) / own).clamp(0.0, 1 - 2.0**-53)
    return index[:, 0], within[:, 0]
