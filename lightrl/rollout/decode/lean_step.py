"""A decode step in plain tensor operations, for blocks of RMS norm, rotary positions, attention and MLP in the order of Llama.

A model gets it if it gives what the model's own forward gives.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lightrl.ops.head_product import mkl_is_quick, onednn_is_wide, onednn_product
from lightrl.policy.head import ScoringHead
from lightrl.rollout.decode.cache import GrowingLayer, growing_cache
from lightrl.rollout.decode.decode_attention import DecodeAttention, csr
from lightrl.rollout.decode.model_forward import DecodeStep, multiplied_as, unwrapped

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.cache_utils import Cache, CacheLayerMixin

TYPES = frozenset({"llama", "mistral", "qwen2", "qwen3"})
"""Values of `model_type` whose blocks are of this form, at every length."""
ROPES = frozenset({"default", "linear", "llama3", "yarn"})
"""Rotary positions whose angles do not depend on the length of the row."""
POSITIONS_AT_ONCE = 256
"""Positions by which the table of angles grows."""
FEW_ROWS = 4
"""Rows up to which a weight times their columns, or times a lone one row by row, is quicker than rows times a weight, except on Intel's."""
ROWS_BEFORE_A_COPY = 2
"""Rows up to which it is quicker than rows times a copy, which is made when it is first read."""
ONEDNN_ROWS, MKL_ROWS = 32, 128
"""Rows for which each library lays a copy out; with fewer, MKL's are as quick as copies for just as many."""
SMALL = 2**16
"""Numbers of a weight up to which it is quickest as it is: caches hold it, and neither a copy nor columns gain anything."""
LARGE_HEAD = 16_384
"""Tokens of a vocabulary from which a copy of its head is made."""


def has_lean_form(model: PreTrainedModel) -> bool:
    """The configuration of a model says that `LeanStep` can run it: known blocks, full attention, angles that depend on the position."""
    config = unwrapped(model).config
    rope = getattr(config, "rope_parameters", None) or {}
    known = config.model_type in TYPES and rope.get("rope_type", "default") in ROPES
    return known and all(type(layer) is GrowingLayer for layer in growing_cache(config).layers)


class LeanStep(DecodeStep):
    """The step of such a model, through the model's own modules, with adapters or without.

    What transformers does around them at every token is left out: masks are not built, and angles come from a table.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        inner: Any = unwrapped(model)
        trunk = inner.base_model
        self._embedding, self._norm, self._head = trunk.embed_tokens, _norm(trunk.norm), product(inner.get_output_embeddings())
        attention = DecodeAttention()
        self._blocks = [_Block(block, attention) for block in trunk.layers]
        self._angles = _Angles(trunk.rotary_emb)

    def logits(self, tokens: Tensor, cache: Cache, mask: Tensor | None, positions: Tensor | None) -> Tensor:
        hidden = self._embedding(tokens)
        cos, sin = self._angles.at(cache.get_seq_length(), positions, hidden)
        closed = None if mask is None else hidden.new_zeros(mask.shape).masked_fill_(~mask, -torch.inf)[:, None, None]
        for block, layer in zip(self._blocks, cache.layers, strict=True):
            hidden = block(hidden, layer, cos, sin, closed)
        return self._head(self._norm(hidden))


class _Block:
    """One block, with its modules at hand: to ask a module for them at every token costs as much as a small operation."""

    def __init__(self, block: Any, read: DecodeAttention) -> None:
        attention, self._read = block.self_attn, read
        self._before, self._between, self._mlp = _norm(block.input_layernorm), _norm(block.post_attention_layernorm), _mlp(block.mlp)
        self._query, self._key, self._value = product(attention.q_proj), product(attention.k_proj), product(attention.v_proj)
        self._query_norm, self._key_norm = (_norm(getattr(attention, name, None)) for name in ("q_norm", "k_norm"))
        self._out, self._width, self._scale = product(attention.o_proj), attention.head_dim, attention.scaling

    def __call__(self, hidden: Tensor, layer: CacheLayerMixin, cos: Tensor, sin: Tensor, closed: Tensor | None) -> Tensor:
        """`[n, H]` to `[n, H]`; `closed` is `[n, 1, 1, positions]`, minus infinity where a row has padding, or None: nowhere."""
        rows = len(hidden)
        normed = self._before(hidden)
        query = self._query_norm(self._heads(self._query(normed)))
        key = self._key_norm(self._heads(self._key(normed)))
        value = self._heads(self._value(normed))
        # under autocast float32 angles have widened what the layers gave
        both = torch.cat([query, key], 1)
        turned = (both * cos).addcmul_(both.roll(self._width // 2, -1), sin).to(value.dtype)
        query, key = turned[:, : query.shape[1]], turned[:, query.shape[1] :]
        keys, values = layer.update(key[:, :, None], value[:, :, None])
        # the queries that share a key stand where the tokens of a row would: nothing is repeated
        grouped = query.reshape(rows, key.shape[1], -1, self._width)
        hidden = hidden + self._out(self._read(grouped, keys, values, closed, self._scale).reshape(rows, -1))
        return hidden + self._mlp(self._between(hidden))

    def _heads(self, states: Tensor) -> Tensor:
        """`[n, heads, width]` of `[n, heads * width]`."""
        return states.view(states.shape[0], -1, self._width)


def product(layer: nn.Module) -> Callable[[Tensor], Tensor]:
    """`[n, out]` of `[n, in]`: what a linear layer gives with its weights as they are now.

    A plain product on a CPU lays its weights out anew at every token. A large head, what is adapted in float32 with its adapters added to
    it, and with AVX-512 all but small weights are copied once, in the layout of products with a few rows.
    """
    added: Any = layer if hasattr(layer, "get_base_layer") else None
    base: Any = layer if added is None else added.get_base_layer()
    if not _only_multiplies(base) or _is_heard(layer):
        return layer
    if added is not None:
        from peft.tuners.lora import Linear

        # an adapter that is added to a weight of two bytes is rounded away
        other = type(added) is not Linear or added.disable_adapters or added.merged or base.weight.dtype != torch.float32
        if other or added.lora_variant or any(added.lora_bias.values()):
            return layer
    weight, bias = base.weight, base.bias
    small, converted = weight.numel() <= SMALL, torch.is_autocast_enabled("cpu")
    copied = added is not None or len(weight) >= LARGE_HEAD or (not small and onednn_is_wide())
    if converted and not copied:
        return layer
    columns = 0 if small or converted or added is not None or weight.dtype != torch.float32 else ROWS_BEFORE_A_COPY if copied else FEW_ROWS
    few = F.linear if mkl_is_quick() else _few_rows

    @cache
    def copy() -> Callable[[Tensor, Tensor | None], Tensor]:
        return _packed(weight if added is None else sum(map(added.get_delta_weight, added.active_adapters), weight))

    def of(states: Tensor) -> Tensor:
        # to ask for a conversion that is none takes as long as a small norm
        states = states if states.dtype == weight.dtype else states.to(weight.dtype)
        if states.shape[0] <= columns:
            return few(states, weight, bias)
        return copy()(states, bias) if copied else F.linear(states, weight, bias)

    return of


def _packed(weight: Tensor) -> Callable[[Tensor, Tensor | None], Tensor]:
    """`[n, out]` of `[n, in]` and a bias, with a copy of the weights in the layout of the library that is quickest with a few rows."""
    by_mkl = weight.dtype == torch.float32 and onednn_is_wide() and mkl_is_quick() and hasattr(torch.ops.mkl, "_mkl_linear")
    lay_out = torch.ops.mkl._mkl_reorder_linear_weight if by_mkl else torch.ops.mkldnn._reorder_linear_weight
    copy: Tensor = lay_out(weight, MKL_ROWS if by_mkl else ONEDNN_ROWS)
    if not by_mkl:
        return lambda states, bias: onednn_product(states, copy, bias)
    only_shape = weight.new_empty(()).expand(weight.shape)
    return lambda states, bias: torch.ops.mkl._mkl_linear(states, copy, only_shape, bias, len(states))


def _few_rows(states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if len(states) == 1:
        # times one column it takes longer than times two; row by row, the next ones are on their way
        found: Tensor = torch.sparse.sampled_addmm(_one_column(len(weight)), weight, states.t()).values()[None]
    else:
        # what follows is slower on columns
        found = torch.mm(weight, states.t()).t().contiguous()
    return found if bias is None else found.add_(bias)


@cache
def _one_column(rows: int) -> Tensor:
    ends = torch.arange(rows + 1, device="cpu")
    return csr(ends, torch.zeros_like(ends[1:]), torch.zeros(rows, dtype=torch.float32, device="cpu"), (rows, 1))


def _mlp(mlp: nn.Module) -> Callable[[Tensor], Tensor]:
    if _is_heard(mlp) or not type(mlp).__module__.startswith("transformers.models."):
        return mlp
    parts = dict(mlp.named_children())
    gate, up, down = (product(parts[f"{name}_proj"]) for name in ("gate", "up", "down"))
    return lambda states: down(parts["act_fn"](gate(states)).mul_(up(states)))


def _is_heard(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


def _only_multiplies(layer: nn.Module) -> bool:
    """It is linear, multiplies as its weights are, float32 or bfloat16, and is on an x86 CPU (others were not measured) with oneDNN."""
    if not isinstance(layer, nn.Linear) or type(layer).forward not in (nn.Linear.forward, ScoringHead.forward) or _is_heard(layer):
        return False
    known = layer.weight.dtype in (torch.float32, torch.bfloat16) and multiplied_as(layer, layer.weight) == layer.weight.dtype
    measured = layer.weight.device.type == "cpu" and torch.backends.cpu.get_cpu_capability().startswith("AVX")
    return measured and known and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class _Angles:
    """Cosines and sines of all positions so far, computed by the model's own module."""

    def __init__(self, rotary: nn.Module) -> None:
        self._rotary = rotary
        self._table: tuple[Tensor, Tensor] | None = None

    def at(self, read: int, positions: Tensor | None, like: Tensor) -> tuple[Tensor, Tensor]:
        """`[1 or n, 1, width]` cosines and sines of positions that are at most `read`."""
        if self._table is None or len(self._table[0]) <= read:
            upto = torch.arange(read + POSITIONS_AT_ONCE, device=like.device)
            cos, sin = (part[0, :, None] for part in self._rotary(like, upto[None]))
            half = cos.shape[-1] // 2
            self._table = cos, torch.cat([-sin[..., :half], sin[..., half:]], -1)
        cos, sin = self._table
        return (cos[read : read + 1], sin[read : read + 1]) if positions is None else (cos[positions], sin[positions])


def _norm(norm: Any) -> Callable[[Tensor], Tensor]:
    """The RMS norm of a module, in fewer operations; None norms nothing."""
    if norm is None:
        return lambda states: states
    weight, epsilon = norm.weight, norm.variance_epsilon
    # the operation of torch for it is one kernel on a GPU, and eight steps on a CPU
    added = weight.new_full((1,), epsilon, dtype=torch.float32) if weight.device.type == "cpu" else None

    def of(states: Tensor) -> Tensor:
        if states.dtype != torch.float32:
            # in other precisions their roundings are theirs
            found: Tensor = norm(states)
            return found
        if added is None:
            return F.rms_norm(states, weight.shape, weight, epsilon)
        length = torch.linalg.vector_norm(states, dim=-1, keepdim=True)
        return (states * torch.addcmul(added, length, length, value=1 / len(weight)).rsqrt_()).mul_(weight)

    return of
