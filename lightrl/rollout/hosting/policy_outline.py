"""A policy without its weights, as it travels to another process."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lightrl.parts.engine import SampledPolicy
from lightrl.policy.adapted import AdaptedPolicy
from lightrl.policy.lora import adapted
from lightrl.policy.policy import Policy
from lightrl.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class PolicyOutline:
    """The policy's architecture and tokenizer, and how the trainer computes with it."""

    config: Any
    """Of the model, as transformers has it."""
    generation: Any
    """Its generation config; None if it has none."""
    adapters: Any
    """PEFT's config, if the policy has adapters in its layers."""
    tokenizer: Tokenizer
    """Of the policy."""
    dtype: torch.dtype
    """Of its weights."""
    autocast: torch.dtype | None
    """The trainer's layers compute in it, whatever the weights are in; None: in the dtype of the weights."""
    threads: int
    """The trainer's threads on the CPU, since sums are rounded differently with another number."""
    matmul: str
    """How the trainer's torch multiplies matrices in float32."""
    own_code: bool = False
    """The trainer's model is of Python files that came with its weights, which its config allowed."""

    @classmethod
    def of(cls, policy: SampledPolicy) -> PolicyOutline:
        """The outline of the trainer's policy, as the trainer computes at this moment."""
        from transformers.utils import TRANSFORMERS_DYNAMIC_MODULE_NAME

        model = policy.model
        device = next(model.parameters()).device.type
        return cls(
            config=model.config,
            generation=getattr(model, "generation_config", None),
            adapters=policy.adapter_config if isinstance(policy, AdaptedPolicy) else None,
            tokenizer=policy.tokenizer,
            dtype=model.dtype,
            autocast=torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None,
            threads=torch.get_num_threads(),
            matmul=torch.get_float32_matmul_precision(),
            own_code=type(policy.model).__module__.startswith(f"{TRANSFORMERS_DYNAMIC_MODULE_NAME}."),
        )

    def build(self, tensors: Iterable[tuple[str, Tensor]], device: torch.device) -> Policy:
        """The policy with these weights.

        Args:
            tensors: every tensor by its name in the trainer's own modules, copied at once.

        Raises:
            ValueError: they are not the tensors of the model that the config describes.
        """
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_config(self.config, dtype=self.dtype, trust_remote_code=self.own_code).to(device)
        if self.generation is not None:
            model.generation_config = self.generation
        if self.adapters is None:
            copy_into(model, tensors)
            return Policy(model.train(), self.tokenizer)
        with_adapters = adapted(model, self.adapters)
        copy_into(with_adapters.get_base_model(), tensors)
        return AdaptedPolicy(with_adapters.train(), self.tokenizer)

    def computing(self, device: torch.device) -> AbstractContextManager[object]:
        """Within, layers compute in the trainer's precision."""
        return nullcontext() if self.autocast is None else torch.autocast(device.type, self.autocast)


@torch.no_grad()
def copy_into(model: torch.nn.Module, tensors: Iterable[tuple[str, Tensor]], every: bool = True) -> None:
    """Give a model other weights, in place.

    Args:
        tensors: parameters and persistent buffers by their names.
        every: none may be missing.

    Raises:
        ValueError: one has no place in the model, one of another shape, or one is missing.
    """
    kept = model.state_dict(keep_vars=True)
    missing = {*dict(model.named_parameters()), *(name for name, _ in model.named_buffers() if name in kept)}
    for name, tensor in tensors:
        if name not in kept:
            raise ValueError(f"{type(model).__name__} of the policy's config has no tensor {name!r} to take the policy's")
        own = kept[name]
        if own.shape != tensor.shape:
            raise ValueError(
                f"{name}: the policy's is {list(tensor.shape)}, and {type(model).__name__} of its config has {list(own.shape)}"
            )
        if own.dtype != tensor.dtype:
            own.data = own.data.to(tensor.dtype)
        own.copy_(tensor)
        missing.discard(name)
    if every and missing:
        raise ValueError(f"the policy gave no weights for {', '.join(sorted(missing))} of {type(model).__name__}")
