"""Log-probs of chosen tokens, and other numbers of their logits, without holding `[rows, vocabulary]` for all of many rows.

The head is applied to a chunk of positions at a time, in the forward and again in the backward pass, so that memory is
chunk x vocabulary instead of positions x vocabulary; on a CPU, and where nothing needs all logits of a position at once, to a part of a
large vocabulary at a time, whose logits stay in the caches. In either pass its weights are brought into the format of the product once.
Of few positions on a CPU, the gradient with respect to the logits is kept from the forward pass, and no logits are computed again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from lightrl.ops.head_product import KEPT, head_format, head_product, matrix_product, tile, without_autocast

Compute = Callable[[Tensor, Tensor], Tensor]
"""A number of each position, `[m]`: from its logits `[m, V]`, which stay as they are, and the ids of the chosen tokens, `[m]`."""


@dataclass(frozen=True)
class AtRows:
    """A number of each position that takes more than its logits, such as another model's."""

    at: Callable[[slice], Compute]
    """Computes it for a slice of all positions; the same for the same slice."""


def chosen_logprobs(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    temperature: float = 1.0,
    outputs: Sequence[Compute | AtRows] = (),
    softcap: float | None = None,
    scale: float = 1.0,
) -> tuple[Tensor, ...]:
    """Log-probs of the targets under softmax(logits / temperature) over the whole vocabulary, and other numbers of the same logits.

    logits = scale * (hidden weight^T + bias), then softcap * tanh(logits / softcap) if there is a softcap.

    Args:
        hidden: `[M, H]` last hidden states, one per chosen token (those that predict it).
        weight: `[V, H]` of the output embedding.
        bias: `[V]` or None.
        targets: `[M]` int64, the tokens.
        temperature: > 0.
        outputs: further numbers of each position, from its logits after cap and temperature; with their gradient, where somebody uses it.
        softcap: of the final logits (Gemma 2), or None.
        scale: multiplies the logits (Cohere; the inverse of Granite's).

    Returns:
        `[M]` log-probs, then `[M]` of each output, in float32 or the hidden states' own type if that is wider.
    """
    apply: Callable[..., tuple[Tensor, ...]] = _ChosenLogProbs.apply
    return apply(hidden, weight, bias, targets, (temperature, tuple(outputs), softcap, scale))


def head_logits(hidden: Tensor, weight: Tensor, bias: Tensor | None, temperature: float, softcap: float | None, scale: float) -> Tensor:
    """`[m, V]` logits after scale, cap and temperature, as in `chosen_logprobs`: a tensor of its own, which may be written over.

    Args:
        hidden: `[m, H]`.
        weight: `[V, H]`, in `head_format`.
    """
    raw = head_product(hidden, weight, bias)
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


def at_rows(compute: Compute | AtRows, rows: slice) -> Compute:
    """A function that computes numbers of these positions."""
    return compute.at(rows) if isinstance(compute, AtRows) else compute


def _blocks(targets: Tensor, vocabulary: int, size: tuple[int, int]) -> Iterator[tuple[slice, slice, Tensor, Tensor]]:
    """Blocks of so many positions and tokens of the vocabulary: both, columns `[m, 1]` of the chosen tokens, and which are inside."""
    rows, columns = size
    for top in range(0, len(targets), rows):
        for left in range(0, vocabulary, columns):
            width = min(columns, vocabulary - left)
            places = targets[top : top + rows] - left
            inside = (places >= 0) & (places < width)
            # a token outside the whole vocabulary stays outside, and is refused
            places = places if not left else places.clamp(min=0)
            places = places if left + width == vocabulary else places.clamp(max=width - 1)
            yield slice(top, top + rows), slice(left, left + width), places[:, None], inside


_Settings = tuple[float, tuple[Compute | AtRows, ...], float | None, float]
"""Temperature, outputs, softcap and scale."""


class _Context(Protocol):
    """Autograd's context, with the values that the forward pass leaves in it for the backward pass."""

    settings: _Settings
    format: torch.dtype
    """In which the head is multiplied."""
    saved_tensors: tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor, Tensor | None]
    needs_input_grad: tuple[bool, ...]

    def save_for_backward(self, *tensors: Tensor | None) -> None: ...
    def set_materialize_grads(self, value: bool) -> None: ...


class _ChosenLogProbs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: _Context, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, settings: _Settings
    ) -> tuple[Tensor, ...]:
        temperature, outputs, softcap, scale = ctx.settings = settings
        # the logits must come out in the backward pass as they do here, whatever precision surrounds it
        ctx.format = head_format(weight)
        dtype = torch.promote_types(hidden.dtype, torch.float32)
        # the gradient of a log-prob is this, times what comes from above: behind a head that does not learn, or else behind the logits
        frozen = ctx.needs_input_grad[:3] == (True, False, False)
        kept = frozen or (ctx.needs_input_grad[0] and len(hidden) * len(weight) <= KEPT and weight.device.type == "cpu")
        slopes = hidden.new_empty(len(hidden), weight.shape[int(frozen)], dtype=dtype) if kept and softcap is None else None
        logprobs, *found = (hidden.new_full((len(hidden),), torch.nan, dtype=dtype) for _ in range(1 + len(outputs)))
        size = tile(weight, slopes is not None or bool(outputs))
        # one row of it for each part of the vocabulary: added up at once, they lose nothing to rounding
        normalisers = hidden.new_empty(math.ceil(len(weight) / size[1]), len(hidden), dtype=dtype)
        with without_autocast(hidden):
            head = weight.to(ctx.format)
            for rows, columns, places, inside in _blocks(targets, len(weight), size):
                logits = head_logits(hidden[rows], head[columns], None if bias is None else bias[columns], temperature, softcap, scale)
                logprobs[rows] = torch.where(inside, logits.gather(1, places)[:, 0], logprobs[rows])
                for values, compute in zip(found, outputs, strict=True):
                    values[rows] = at_rows(compute, rows)(logits, targets[rows])
                normalisers[columns.start // size[1], rows] = _logsumexp_(logits)
                if slopes is not None:
                    # what is left of the logits are probabilities, but for their sum
                    g = logits.mul_(-scale / temperature / logits.sum(-1, keepdim=True))
                    g.scatter_add_(1, places, g.new_full((len(g), 1), scale / temperature))
                    slopes[rows] = matrix_product(g.to(ctx.format), head) if frozen else g
                    del g
                # before the next chunk is there
                del logits
            normaliser = normalisers.logsumexp(0)
            logprobs -= normaliser
        ctx.save_for_backward(hidden, weight, bias, targets, normaliser, slopes)
        # an output that is only looked at is not computed again
        ctx.set_materialize_grads(False)
        return logprobs, *found

    @staticmethod
    def backward(ctx: _Context, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        with without_autocast(ctx.saved_tensors[0]):
            return (*_gradients(ctx, *grads), None, None)


def _gradients(ctx: _Context, grad_logprobs: Tensor | None, *grad_outputs: Tensor | None) -> tuple[Tensor | None, ...]:
    hidden, weight, bias, targets, normaliser, slopes = ctx.saved_tensors
    temperature, outputs, softcap, scale = ctx.settings
    if grad_logprobs is None:
        grad_logprobs = torch.zeros_like(normaliser)
    used = [(compute, grad) for compute, grad in zip(outputs, grad_outputs, strict=True) if grad is not None]
    wants_hidden, wants_weight, wants_bias = ctx.needs_input_grad[:3]
    if slopes is not None and not used:
        factor = grad_logprobs[:, None]
        behind = matrix_product(slopes, weight.to(slopes.dtype)) if wants_weight or wants_bias else slopes
        d_weight = (slopes.T @ (hidden * factor)).to(weight.dtype) if wants_weight else None
        d_bias = None if bias is None or not wants_bias else (slopes.T @ factor)[:, 0].to(bias.dtype)
        return (behind * factor).to(hidden.dtype), d_weight, d_bias
    # the sum over chunks is kept in the accumulating type, so that bf16 weights do not round at every chunk
    wide = torch.promote_types(weight.dtype, torch.float32)
    d_hidden = torch.zeros_like(hidden, dtype=torch.promote_types(hidden.dtype, torch.float32)) if wants_hidden else None
    d_weight = torch.zeros_like(weight, dtype=wide) if wants_weight else None
    d_bias = torch.zeros_like(bias, dtype=wide) if bias is not None and wants_bias else None
    head = weight.to(ctx.format)
    for rows, columns, places, inside in _blocks(targets, len(weight), tile(weight, bool(used))):
        logits = head_logits(hidden[rows], head[columns], None if bias is None else bias[columns], temperature, softcap, scale)
        further = _through_outputs(logits, targets[rows], [(at_rows(compute, rows), grad[rows]) for compute, grad in used])
        slope = None if softcap is None else (logits * (temperature / softcap)).square_().neg_().add_(1.0)
        g = logits.sub_(normaliser[rows, None]).exp_().mul_(-grad_logprobs[rows, None])
        g.scatter_add_(1, places, (grad_logprobs[rows] * inside)[:, None])
        g = g if further is None else g.add_(further)
        g = (g if slope is None else g.mul_(slope)).mul_(scale / temperature)
        if d_bias is not None:
            d_bias[columns] += g.sum(0)
        g = g.to(ctx.format)
        if d_hidden is not None:
            d_hidden[rows] += matrix_product(g, head[columns])
        if d_weight is not None:
            total, read = d_weight[columns], hidden[rows].to(ctx.format)
            if wide == ctx.format:
                # without one more of its size
                total.addmm_(g.T, read)
            else:
                total += matrix_product(g.T, read)
        # before the next chunk is there
        del logits, further, g
    sums = (d_hidden, hidden), (d_weight, weight), (d_bias, bias)
    return tuple(None if found is None or own is None else found.to(own.dtype) for found, own in sums)


def _through_outputs(logits: Tensor, targets: Tensor, used: list[tuple[Compute, Tensor]]) -> Tensor | None:
    """The gradient of the outputs with respect to the logits after cap and temperature; None where none is used."""
    if not used:
        return None
    with torch.enable_grad():
        read = logits.detach().requires_grad_()
        total = torch.stack([(compute(read, targets) * grad).sum() for compute, grad in used]).sum()
        return torch.autograd.grad(total, read)[0]
