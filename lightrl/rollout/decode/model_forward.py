"""The forward of any causal LM of transformers over a cache, the decode step that it makes, and copies of weights for its time."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from lightrl.ops.head_product import head_format
from lightrl.ops.pretrained import ReplacedTensors
from lightrl.policy.head import ScoringHead
from lightrl.versions import CACHE_ARGUMENTS, cache_argument

if TYPE_CHECKING:
    from transformers.cache_utils import Cache


class DecodeStep(ABC):
    """One token per row goes through a model."""

    @abstractmethod
    def logits(self, tokens: Tensor, cache: Cache, mask: Tensor | None, positions: Tensor | None) -> Tensor:
        """`[n, V]` logits of the next tokens; the cache grows by one position.

        Args:
            tokens: `[n]` int64, one per row.
            mask: `[n, positions]` bool, False where a row has padding or a gap, these tokens included; None: there is none.
            positions: `[n]` int64, of these tokens in their rows; None: behind all that was read.
        """

    def release(self) -> None:  # noqa: B027
        """Free what was kept for the cache of the last tokens."""


class ModelForward(DecodeStep):
    """The forward of the model as transformers has it; of any model with a cache."""

    def __init__(self, model: PreTrainedModel) -> None:
        """
        Raises:
            ValueError: its forward takes no key-value cache.
        """
        self._model = model
        inner = unwrapped(model)
        self._arguments = inspect.signature(inner.forward).parameters
        cache = cache_argument(inner.forward)
        if cache is None:
            names = " or ".join(CACHE_ARGUMENTS)
            raise ValueError(f"{type(inner).__name__}.forward takes no {names}, so TransformersEngine cannot decode with it")
        self._cache_argument = cache
        self.takes_positions = "position_ids" in self._arguments
        """It takes the position of a token in its row."""

    def read(self, input_ids: Tensor, cache: Cache, inputs: Mapping[str, Tensor]) -> Tensor:
        """`[n, V]` logits behind the last of `[n, length]` tokens. `inputs`: mask and position ids, where they are needed."""
        last = {"logits_to_keep": 1} if "logits_to_keep" in self._arguments else {}
        kept = {self._cache_argument: cache}
        logits: Tensor = self._model(input_ids=input_ids, **kept, use_cache=True, **inputs, **last).logits
        return logits[:, -1]

    def logits(self, tokens: Tensor, cache: Cache, mask: Tensor | None, positions: Tensor | None) -> Tensor:
        told = {} if mask is None or positions is None else {"attention_mask": mask, "position_ids": positions[:, None]}
        return self.read(tokens[:, None], cache, told)


def unwrapped(model: PreTrainedModel) -> PreTrainedModel:
    """The causal LM inside a PEFT wrapper, which hides its arguments; a model without a wrapper as it is."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


LINEAR = (nn.Linear, Conv1D)
"""Layers that do nothing with their weights but multiply by them."""


@torch.no_grad()
def compute_copies(model: PreTrainedModel) -> ReplacedTensors:
    """The matrices of linear layers as autocast, or a head with float32 sums, would convert them at every token; nothing else is copied.

    A weight that is tied to an embedding is copied for the head alone. Results are those without copies.

    Args:
        model: whose weights are whole, with or without autocast as it will compute.
    """
    return ReplacedTensors(model, lambda module, tensor: tensor.to(multiplied_as(module, tensor)))


def multiplied_as(module: nn.Module, tensor: Tensor) -> torch.dtype:
    """The format in which a module multiplies this tensor of its own."""
    if type(module) is ScoringHead:
        return head_format(tensor)
    kind = tensor.device.type
    converted = type(module) in LINEAR and tensor.dtype == torch.float32 and torch.is_autocast_enabled(kind)
    return torch.get_autocast_dtype(kind) if converted else tensor.dtype
