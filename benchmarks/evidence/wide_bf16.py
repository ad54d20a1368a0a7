"""bfloat16 on processors without instructions for it: products in float32 of the same numbers, rounded once, as tensor cores have them.

torch's own kernels are five to twenty times slower there. Sums are added in another order, as on every device.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear, scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

Widened = dict[int, tuple[weakref.ref[Tensor], int, Tensor]]
"""By the id of a weight: the weight, its version, and the same numbers in float32."""


class WideBF16(TorchFunctionMode):
    """Within, products of bfloat16 tensors are those of float32 kernels; those of weights keep a copy of the weight."""

    def __init__(self) -> None:
        super().__init__()
        self._widened: Widened = {}
        self._products: dict[object, Callable[..., Tensor]] = {
            linear: self._linear,
            torch.matmul: _matmul,
            Tensor.matmul: _matmul,
            Tensor.__matmul__: _matmul,
            scaled_dot_product_attention: _attention,
        }

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        product = self._products.get(func)
        if product is None or not _computes_in_bf16(args[0]):
            return func(*args, **(kwargs or {}))
        with torch.autocast("cpu", enabled=False):
            return product(*args, **(kwargs or {}))

    def _linear(self, hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        found = _Linear.apply(hidden.to(torch.bfloat16), weight, self._wide(weight))
        return found if bias is None else found + bias.to(torch.bfloat16)

    def _wide(self, weight: Tensor) -> Tensor:
        kept = self._widened.get(id(weight))
        if kept is None or kept[0]() is not weight or kept[1] != weight._version:
            kept = self._widened[id(weight)] = weakref.ref(weight), weight._version, weight.detach().to(torch.bfloat16).float()
        return kept[2]


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, wide: Tensor) -> Tensor:
        ctx.save_for_backward(hidden, wide)
        ctx.of_weight = weight.dtype
        return linear(hidden.float(), wide).to(torch.bfloat16)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None]:
        hidden, wide = ctx.saved_tensors
        rows = gradient.float().reshape(-1, gradient.shape[-1])
        own = None
        if ctx.needs_input_grad[1]:
            own = torch.mm(rows.t(), hidden.float().reshape(-1, hidden.shape[-1])).to(torch.bfloat16).to(ctx.of_weight)
        return torch.mm(rows, wide).to(torch.bfloat16).view(hidden.shape), own, None


def _computes_in_bf16(first: Tensor) -> bool:
    return first.dtype == torch.bfloat16 or (first.dtype == torch.float32 and torch.is_autocast_enabled("cpu"))


def _matmul(left: Tensor, right: Tensor) -> Tensor:
    if torch.bfloat16 in (left.dtype, right.dtype):
        return torch.mm(left.float(), right.float()).to(torch.bfloat16) if left.dim() == right.dim() == 2 else torch.matmul(left, right)
    return torch.matmul(left, right)


def _attention(query: Tensor, key: Tensor, value: Tensor, **settings: Any) -> Tensor:
    half = (tensor.to(torch.bfloat16).float() for tensor in (query, key, value))
    mask = settings.pop("attn_mask", None)
    wide = mask if mask is None or mask.dtype == torch.bool else mask.float()
    return scaled_dot_product_attention(*half, attn_mask=wide, **settings).to(torch.bfloat16)
