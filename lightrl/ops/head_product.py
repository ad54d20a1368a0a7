"""The product of hidden states with the weights of a head: its sums are float32, whatever format the numbers come in.

Rounded to bfloat16, logits between 16 and 32 would be multiples of 0.125, and a token's log-prob off by as much.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import linear

HALVES = (torch.bfloat16, torch.float16)
"""Formats whose products a GPU adds up in float32."""
LARGE = 2**18
"""Numbers of a matrix from which oneDNN multiplies more quickly than the BLAS that torch calls."""
LEAST_ROWS = 128
"""Positions in a chunk of logits at least: with fewer, reading the head takes longer than multiplying with it."""
MOST_ROWS = 2048
"""Positions on an accelerator beyond which nothing is gained."""
ELEMENTS = 4_194_304
"""Logits that a CPU holds at a time: 16 MiB in float32."""
TILE = 512, 2048
"""The same, as positions and tokens, where a part of a large vocabulary is taken at a time: 4 MiB, which stay in the caches of a core."""
KEPT = 67_108_864
"""Numbers, one for each logit, that a CPU keeps from a forward to its backward pass at most: 256 MiB in float32."""
MEMORY_SHARE = 1 / 32
"""Of an accelerator's memory, what the logits of a chunk may take."""


def head_format(weight: Tensor) -> torch.dtype:
    """The format in which the numbers of a head are multiplied: at the caller's place, as the layers are, with or without autocast.

    On a CPU it is at least float32, in which products of halves are exact, and quicker.
    """
    kind = weight.device.type
    if kind == "cpu":
        return torch.promote_types(weight.dtype, torch.float32)
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype


def head_product(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`[..., V]` hidden weight^T + bias in float32 or wider, of numbers in the format of the weights; without autocast.

    Args:
        hidden: `[..., H]`.
        weight: `[V, H]`, in `head_format`.
        bias: `[V]` or None.
    """
    hidden, bias = hidden.to(weight.dtype), None if bias is None else bias.to(weight.dtype)
    if torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad):
        narrow = linear(hidden, weight, bias)
        return narrow.to(torch.promote_types(narrow.dtype, torch.float32))
    found = matrix_product(hidden.flatten(0, -2), weight.T).view(*hidden.shape[:-1], -1)
    return found if bias is None else found.add_(bias)


def matrix_product(left: Tensor, right: Tensor) -> Tensor:
    """The product of two matrices of one format, in float32 or wider; it has no gradient."""
    if left.is_cuda and left.dtype in HALVES and hasattr(torch.ops.aten.mm, "dtype"):
        return torch.mm(left, right, out_dtype=torch.float32)
    many = len(left) >= LEAST_ROWS and right.numel() >= LARGE and left.dtype == right.dtype == torch.float32
    if many and right.device.type == "cpu" and onednn_is_wide():
        return onednn_product(left, right.T)
    found = left @ right
    return found.to(torch.promote_types(found.dtype, torch.float32))


def onednn_is_wide() -> bool:
    """torch has oneDNN, and the processor AVX-512."""
    return torch.backends.cpu.get_cpu_capability().startswith("AVX512") and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@cache
def mkl_is_quick() -> bool:
    """The BLAS that torch calls is quick with one or two rows: so it is on Intel's processors, which an older torch does not name."""
    known: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    return str(known.get("cpu_name")).startswith("Intel")


def onednn_product(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`[n, out]` rows weight^T + bias by oneDNN, of `[n, in]` and `[out, in]` in any layout, its own included; it has no gradient."""
    found: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return found


def without_autocast(like: Tensor) -> AbstractContextManager[object]:
    """Within, products on this tensor's device are of their factors as they are."""
    kind = like.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()


def rows_at_once(vocabulary: int, kind: str, memory: float) -> int:
    """Positions whose logits are held at a time.

    Args:
        vocabulary: V.
        kind: of the device, `cpu` or another.
        memory: of the device in bytes; not looked at on a CPU.
    """
    if kind == "cpu":
        return max(LEAST_ROWS, ELEMENTS // vocabulary)
    return min(MOST_ROWS, max(LEAST_ROWS, int(MEMORY_SHARE * memory / (4 * vocabulary))))


def tile(weight: Tensor, whole: bool) -> tuple[int, int]:
    """Positions, and tokens of the vocabulary, whose logits are held at a time.

    Args:
        weight: `[V, H]` of the head.
        whole: all logits of a position are held together.
    """
    vocabulary, device, kind = len(weight), weight.device, weight.device.type
    # torch says it of these alone
    memory = torch.cuda.get_device_properties(device).total_memory if kind == "cuda" else 0
    rows = rows_at_once(vocabulary, kind, memory)
    return (rows, vocabulary) if whole or kind != "cpu" or rows >= TILE[0] else TILE
