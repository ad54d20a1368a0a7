"""Whether a model gives packed rows what it gives plain ones, tried before it is trained."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from lightrl.ops.lazy import dummy_values
from lightrl.ops.packing import pack
from lightrl.policy.packed_trunk import IMPLEMENTATION, CannotPackError, packed_hidden

TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-5}
"""Largest difference of hidden states at which they are called the same, as a share of the largest of them."""
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
    real = torch.arange(ids.shape[1], device=device) < torch.tensor(lengths, device=device)[:, None]
    difference = float((hidden[rows.places] - plain)[real].abs().max() / plain[real].abs().max())
    if not difference <= TOLERANCE.get(plain.dtype, COARSE):
        raise CannotPackError(f"its hidden states differ from those of plain rows by {difference:.2g}")
    known = {window for _, window in rows.made}
    return min((bound for bound in _windows(config) if bound not in known), default=ANY_LENGTH)


def _rows(vocabulary: int) -> tuple[Tensor, list[int]]:
    """Rows that share beginnings of several lengths, and rows that share none."""
    ids = torch.randint(vocabulary, (5, 12), generator=torch.Generator().manual_seed(0), device="cpu")
    ids[1, :5] = ids[0, :5]
    ids[2, :8] = ids[1, :8]
    return ids, [12, 10, 12, 7, 11]


def _windows(config: Any) -> list[int]:
    """How far back the layers see, where a row may be longer than that."""
    if getattr(config, "use_sliding_window", True) is False:
        return [size for size in [getattr(config, "attention_chunk_size", None)] if size]
    sizes = [getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size")]
    return [size for size in sizes if size and size < (getattr(config, "max_position_embeddings", None) or ANY_LENGTH)]
