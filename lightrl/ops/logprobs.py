"""Log-probs and entropy of chosen tokens without ever holding `[rows, vocabulary]` for all rows.

The head is applied to a chunk of positions at a time, in the forward and again in the backward pass, so that memory is
chunk x vocabulary instead of positions x vocabulary.
"""

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

CHUNK_ELEMENTS = 4_194_304
"""Logits held at a time: 16 MiB in float32."""
LEAST_ROWS = 128
"""Positions in a chunk at least, however large the vocabulary: with fewer, reading the head takes longer than multiplying with it."""


def chosen_logprobs(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    temperature: float = 1.0,
    entropy: bool = False,
    softcap: float | None = None,
    scale: float = 1.0,
) -> tuple[Tensor, Tensor | None]:
    """Log-probs of the targets under softmax(logits / temperature) over the whole vocabulary.

    logits = scale * (hidden weight^T + bias), then softcap * tanh(logits / softcap) if there is a softcap.

    Args:
        hidden: `[M, H]` last hidden states, one per chosen token (those that predict it).
        weight: `[V, H]` of the output embedding.
        bias: `[V]` or None.
        targets: `[M]` int64, the tokens.
        temperature: > 0.
        entropy: also return the entropy, with its gradient.
        softcap: of the final logits (Gemma 2), or None.
        scale: multiplies the logits (Cohere; the inverse of Granite's).

    Returns:
        `[M]` log-probs and `[M]` entropies in nats (or None), in float32 or the hidden states' own type if that is wider.
    """
    apply: Callable[..., tuple[Tensor, Tensor]] = _ChosenLogProbs.apply
    logprobs, entropies = apply(hidden, weight, bias, targets, temperature, entropy, softcap, scale)
    return logprobs, entropies if entropy else None


def _logits(hidden: Tensor, weight: Tensor, bias: Tensor | None, temperature: float, softcap: float | None, scale: float) -> Tensor:
    # a tensor of its own, which may be written over
    raw = torch.nn.functional.linear(hidden, weight, bias)
    raw = raw.to(torch.promote_types(raw.dtype, torch.float32))
    if scale != 1.0:
        raw.mul_(scale)
    if softcap is not None:
        raw.div_(softcap).tanh_().mul_(softcap)
    return raw if temperature == 1.0 else raw.div_(temperature)


def _logsumexp_(logits: Tensor) -> Tensor:
    """The logsumexp of each row; writes over the logits."""
    # a row of -inf alone has no difference to its maximum
    highest = logits.amax(-1, keepdim=True)
    highest = torch.where(highest.isinf(), 0.0, highest)
    return logits.sub_(highest).exp_().sum(-1).log_() + highest[:, 0]


def _of_chunk(logits: Tensor, targets: Tensor, entropy: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Normaliser, log-probs and entropies (or the normaliser once more) of a chunk; writes over its logits."""
    chosen = logits.gather(1, targets[:, None])[:, 0]
    if not entropy:
        normaliser = _logsumexp_(logits)
        return normaliser, chosen - normaliser, normaliser
    normaliser = logits.logsumexp(-1)
    probabilities = (logits - normaliser[:, None]).exp_()
    # without -inf logits, whose probability is 0 and whose product would be NaN
    expected = probabilities.mul_(logits.masked_fill_(logits == -torch.inf, 0.0)).sum(-1)
    return normaliser, chosen - normaliser, normaliser - expected


class _Context(Protocol):
    """Autograd's context, with the values that the forward pass leaves in it for the backward pass."""

    settings: tuple[float, bool, float | None, float, int]
    """Temperature, entropy, softcap, scale and positions per chunk."""
    precision: dict[str, Any]
    """Arguments of `torch.autocast`."""
    saved_tensors: tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor, Tensor]
    needs_input_grad: tuple[bool, ...]

    def save_for_backward(self, *tensors: Tensor | None) -> None: ...
    def mark_non_differentiable(self, *tensors: Tensor) -> None: ...


class _ChosenLogProbs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: _Context,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        temperature: float,
        entropy: bool,
        softcap: float | None,
        scale: float,
    ) -> tuple[Tensor, Tensor]:
        chunk = max(LEAST_ROWS, CHUNK_ELEMENTS // weight.shape[0])
        dtype = torch.promote_types(hidden.dtype, torch.float32)
        logprobs, normaliser, entropies = (torch.empty(len(hidden), dtype=dtype, device=hidden.device) for _ in range(3))
        for start in range(0, len(hidden), chunk):
            rows = slice(start, start + chunk)
            logits = _logits(hidden[rows], weight, bias, temperature, softcap, scale)
            normaliser[rows], logprobs[rows], entropies[rows] = _of_chunk(logits, targets[rows], entropy)
            # before the next chunk is there
            del logits
        ctx.save_for_backward(hidden, weight, bias, targets, normaliser, entropies)
        ctx.settings = (temperature, entropy, softcap, scale, chunk)
        kind = hidden.device.type
        ctx.precision = {"device_type": kind, "dtype": torch.get_autocast_dtype(kind), "enabled": torch.is_autocast_enabled(kind)}
        if not entropy:
            ctx.mark_non_differentiable(entropies)
        return logprobs, entropies

    @staticmethod
    def backward(ctx: _Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # the logits must come out as they did in the forward pass, whatever precision surrounds the backward pass
        with torch.autocast(**ctx.precision):
            return (*_gradients(ctx, *grads), None, None, None, None, None)


def _gradients(ctx: _Context, grad_logprobs: Tensor, grad_entropies: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    hidden, weight, bias, targets, normaliser, entropies = ctx.saved_tensors
    temperature, entropy, softcap, scale, chunk = ctx.settings
    wants_hidden, wants_weight, wants_bias = ctx.needs_input_grad[:3]
    # the sum over chunks is kept in the accumulating type, so that bf16 weights do not round at every chunk
    wide = torch.promote_types(weight.dtype, torch.float32)
    d_hidden = torch.zeros_like(hidden) if wants_hidden else None
    d_weight = torch.zeros_like(weight, dtype=wide) if wants_weight else None
    d_bias = torch.zeros_like(bias, dtype=wide) if bias is not None and wants_bias else None
    for start in range(0, len(hidden), chunk):
        rows = slice(start, start + chunk)
        logits = _logits(hidden[rows], weight, bias, temperature, softcap, scale)
        of_entropy = (entropies[rows], grad_entropies[rows]) if entropy else None
        g = _through_softmax(logits, targets[rows], normaliser[rows], grad_logprobs[rows], of_entropy, softcap, temperature)
        g = g.mul_(scale / temperature).to(hidden.dtype)
        if d_hidden is not None:
            d_hidden[rows] = g @ weight
        if d_weight is not None:
            _add_product(d_weight, g.T, hidden[rows])
        if d_bias is not None:
            d_bias += g.sum(0)
        # before the next chunk is there
        del logits, g
    return (
        d_hidden,
        None if d_weight is None else d_weight.to(weight.dtype),
        None if d_bias is None or bias is None else d_bias.to(bias.dtype),
    )


def _through_softmax(
    logits: Tensor,
    targets: Tensor,
    normaliser: Tensor,
    grad_logprobs: Tensor,
    entropies: tuple[Tensor, Tensor] | None,
    softcap: float | None,
    temperature: float,
) -> Tensor:
    """The gradient with respect to the logits before cap and temperature; written over the logits where there is no entropy.

    Args:
        logits: `[m, V]` after cap and temperature; lost.
        targets: `[m]`.
        normaliser: `[m]`, their logsumexp.
        grad_logprobs: `[m]`, the gradient with respect to the log-probs.
        entropies: `[m]` entropies and the gradient with respect to them; None: they have none.
        softcap: as in `chosen_logprobs`.
        temperature: as in `chosen_logprobs`; the gradient is still to be divided by it.
    """
    slope = None if softcap is None else (logits * (temperature / softcap)).square_().neg_().add_(1.0)
    logq = logits.sub_(normaliser[:, None])
    if entropies is None:
        g = logq.exp_().mul_(-grad_logprobs[:, None])
    else:
        values, grads = entropies
        q = logq.exp()
        weighed = logq.masked_fill_(q == 0, 0.0).add_(values[:, None]).mul_(grads[:, None])
        g = weighed.add_(grad_logprobs[:, None]).mul_(q).neg_()
    g.scatter_add_(1, targets[:, None], grad_logprobs[:, None])
    return g if slope is None else g.mul_(slope)


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add the product of two matrices, without one more of its size where the types allow that."""
    if left.dtype == right.dtype == total.dtype and not torch.is_autocast_enabled(total.device.type):
        total.addmm_(left, right)
    else:
        total += left @ right
