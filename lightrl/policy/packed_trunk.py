"""Runs the trunk of a causal LM on rows that are packed into one row without padding, once a trial has shown that it can."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.utils._triton import has_triton

from lightrl.ops.lazy import dummy_values
from lightrl.ops.packing import PackedRows, pack
from lightrl.ops.shift import Selected
from lightrl.ops.tree_attention import tree_attention
from lightrl.policy.flex_kernel import FlexKernel, flex_kernel
from lightrl.policy.trunk_numbers import laid_out
from lightrl.rows import onto

KEY = "packed_rows"
"""Argument under which the layers hand the layout on to their attention."""
IMPLEMENTATION = "sdpa"
"""The attention of transformers that can be given packed rows."""


NOTHING: Mapping[str, Tensor] = MappingProxyType({})
"""No numbers travel with the tokens."""


class CannotPackError(Exception):
    """A model's attention does more than packed rows have; says what."""


@dataclass(frozen=True)
class TrunkStates:
    """Last hidden states of the tokens of n rows, wherever they stand."""

    hidden: Tensor
    """`[X, H]`."""
    places: Tensor
    """`[n, L]` int64, on the CPU: where the state of each token stands; any place for padding."""

    def predictors(self, selected: Selected) -> Tensor:
        """`[M, H]`: those that predict the selected tokens."""
        return self.hidden.index_select(0, onto(self.places.flatten()[selected.places - 1], self.hidden.device))

    def at(self, rows: Tensor, positions: Tensor) -> Tensor:
        """`[R, H]`: those at positions of rows, both on the CPU."""
        return self.hidden.index_select(0, onto(self.places[rows, positions], self.hidden.device))

    def rows(self) -> Tensor:
        """`[n, L, H]`, as a trunk gives them for padded rows."""
        rows, width = self.places.shape
        if len(self.hidden) == rows * width:
            return self.hidden.view(rows, width, -1)
        return self.hidden.index_select(0, onto(self.places.flatten(), self.hidden.device)).view(rows, width, -1)


def trunk_states(
    trunk: Any, input_ids: Tensor, device: torch.device, lengths: list[int], longest_packed: int, steering: Mapping[str, Tensor] = NOTHING
) -> TrunkStates:
    """Run a trunk on rows: packed where it can be, and padded otherwise.

    Args:
        input_ids: `[n, L]` int64, on the CPU.
        lengths: of n rows; what follows is not looked at.
        longest_packed: the longest row with which the trunk takes packed rows; 0: none.
        steering: `[n, L, ...]` of each token, by the name under which the layers are given it.
    """
    longest = max(lengths, default=0)
    if not len(lengths) or longest > longest_packed:
        places = torch.arange(input_ids.numel()).view(input_ids.shape)
        steered = laid_out(steering, places, lengths, places.numel())
        hidden = trunk(input_ids=onto(input_ids, device), use_cache=False, **steered).last_hidden_state
        return TrunkStates(hidden.flatten(0, 1), places)
    # without any token the weights would have no part in the result
    rows = pack(input_ids, lengths if longest else [1, *lengths[1:]])
    steered = laid_out(steering, rows.places, lengths, len(rows))
    return TrunkStates(packed_hidden(trunk, rows.to(device), steered), rows.places)


def packed_hidden(trunk: Any, rows: PackedRows, steered: Mapping[str, Tensor] = NOTHING) -> Tensor:
    """`[T, H]` last hidden states of packed rows.

    Args:
        trunk: of a causal LM of transformers, with the attention `IMPLEMENTATION`.
        rows: where the trunk is.
        steered: `[T, ...]` of each place, by the name under which the layers are given it.

    Raises:
        CannotPackError: the attention has something that packed rows have not.
    """
    from transformers import AttentionInterface

    known = AttentionInterface()[IMPLEMENTATION]
    if not isinstance(known, _Attention):
        # it looks for packed rows among its arguments, also in a layer that is computed again
        AttentionInterface.register(IMPLEMENTATION, _Attention(known))
    # a prepared mask, so that none is made; without the attention of this file nothing would be seen through it
    nothing = torch.zeros(1, 1, 1, 1, dtype=torch.bool, device=rows.input_ids.device)
    places = {"input_ids": rows.input_ids, "position_ids": rows.position_ids, "attention_mask": nothing}
    hidden: Tensor = trunk(**places, use_cache=False, **{KEY: _Packed(rows, flex_kernel(trunk))}, **steered).last_hidden_state
    return hidden[0]


@dataclass(frozen=True)
class _Packed:
    """The layout of a forward pass, and the kernel of its trunk."""

    rows: PackedRows
    flex: FlexKernel


class _Attention:
    def __init__(self, plain: Callable[..., Any]) -> None:
        self.plain = plain

    def __call__(self, module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **arguments: Any) -> Any:
        packed: _Packed | None = arguments.pop(KEY, None)
        if packed is None:
            return self.plain(module, query, key, value, attention_mask, **arguments)
        if extra := [name for name in ("softcap", "position_bias", "s_aux") if arguments.get(name) is not None]:
            raise CannotPackError(f"its attention has {extra[0]}")
        scale, window = arguments.get("scaling"), arguments.get("sliding_window")
        # under autocast float32 angles have widened what the layers gave
        query, key = query.to(value.dtype), key.to(value.dtype)
        attention = packed.flex if _has_kernel(query) else tree_attention
        return attention(query, key, value, packed.rows, scale, window), None


def _has_kernel(query: Tensor) -> bool:
    """Flex attention has a compiled kernel for these numbers: a GPU with Triton, half precision, a width that is a power of two."""
    width = query.shape[-1]
    if not query.is_cuda or query.dtype not in (torch.float16, torch.bfloat16) or width < 16 or width & (width - 1):
        return False
    return has_triton()


TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-5}
"""Largest difference of hidden states at which they are called the same, as a share of the largest of them."""
AMPLIFIED, MOST = 10, 50
"""Deep models enlarge rounding: packed rows may differ by so many times what rows alone differ from rows together, and of the tolerance."""
COARSE = 0.03
"""The same for narrower types."""
ANY_LENGTH = 1 << 40


@torch.no_grad()
def longest_packed(model: Any) -> int:
    """The longest row, in tokens, with which the trunk of a causal LM takes packed rows; 0: it takes none, and a warning says why.

    Args:
        model: of transformers, on any device, its weights read or not.
    """
    training = model.training
    model.eval()
    try:
        # while Lightning builds a model, what is made without saying where is made on the device
        with torch.device("cpu"), dummy_values(model):
            return _tried(model)
    except CannotPackError as error:
        warnings.warn(
            f"{type(model).__name__} runs rows one beside the other, padded, and the prompt once for each of its completions: {error}",
            stacklevel=4,
        )
        return 0
    finally:
        model.train(training)


def _tried(model: Any) -> int:
    trunk, config = model.base_model, model.config.get_text_config()
    if (attention := getattr(config, "_attn_implementation", None)) != IMPLEMENTATION:
        raise CannotPackError(f"its attention is {attention}, and rows can be packed with {IMPLEMENTATION}")
    ids, lengths = _rows(config.vocab_size)
    device = next(trunk.parameters()).device
    plain = trunk(input_ids=ids.to(device), use_cache=False).last_hidden_state
    if plain.isnan().any():
        # adapters that begin from weights which have not been read: the policy is made once more, from those that were
        return 0
    rows = pack(ids, lengths, least=1).to(device)
    try:
        hidden = packed_hidden(trunk, rows)
    except (TypeError, ValueError, IndexError, RuntimeError) as error:
        # plain rows of the same tokens have just run
        if isinstance(error, torch.OutOfMemoryError) or "memory" in str(error):
            raise
        raise CannotPackError(f"it does not take them ({type(error).__name__}: {str(error).splitlines()[0]})") from error

    def apart(found: list[Tensor]) -> float:
        pairs = [(row[:length], states[:length]) for row, states, length in zip(found, plain, lengths, strict=True)]
        return float(max((row - states).abs().max() for row, states in pairs) / max(states.abs().max() for _, states in pairs))

    difference, tolerance = apart(list(hidden[rows.places])), TOLERANCE.get(plain.dtype, COARSE)
    if tolerance < difference <= MOST * TOLERANCE.get(plain.dtype, 0.0):
        alone = [trunk(input_ids=row[None, :n].to(device), use_cache=False) for row, n in zip(ids, lengths, strict=True)]
        tolerance = AMPLIFIED * apart([outcome.last_hidden_state[0] for outcome in alone])
    if not difference <= tolerance:
        raise CannotPackError(f"its hidden states differ from those of plain rows by {difference:.2g}")
    known = {window for _, window in rows.made}
    return min((bound for bound in _windows(config) if bound not in known), default=ANY_LENGTH)


def _rows(vocabulary: int) -> tuple[Tensor, list[int]]:
    """Rows that share beginnings of two lengths, and one that shares none."""
    ids = torch.randint(vocabulary, (4, 5), generator=torch.Generator().manual_seed(0), device="cpu")
    ids[1, :2] = ids[0, :2]
    ids[2, :4] = ids[1, :4]
    return ids, [5, 4, 5, 3]


def _windows(config: Any) -> list[int]:
    """How far back the layers see, where a row may be longer than that."""
    if getattr(config, "use_sliding_window", True) is False:
        return [size for size in [getattr(config, "attention_chunk_size", None)] if size]
    sizes = [getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size")]
    return [size for size in sizes if size and size < (getattr(config, "max_position_embeddings", None) or ANY_LENGTH)]
