"""A policy whose base stays as it is while adapters beside its layers learn (LoRA and its kin), through PEFT."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from lightrl.ops.lazy import dummy_values, read, values_of
from lightrl.policy.policy import Policy
from lightrl.policy.weight_access import WeightAccess
from lightrl.policy.written_model import save_tokenizer
from lightrl.strategies.disk import onto_disk
from lightrl.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from peft import PeftConfig, PeftModel
    from peft.tuners.tuners_utils import BaseTunerLayer

SAMPLED = 64
"""Values of a parameter that enter the hash."""


class AdaptedPolicy(Policy):
    """A frozen base with trainable adapters in its layers.

    `model` is the base itself, with PEFT's layers in place of those that are adapted, so that log-probs, rollouts and strategies treat
    it as any other. A state dict holds the adapters and a hash of the base, which comes from its own source again.
    """

    adapted = True
    base_hash: Tensor
    """`[16]` uint8, a hash of the frozen weights."""

    def __init__(self, peft_model: PeftModel, tokenizer: Tokenizer) -> None:
        """`peft_model`: around a causal LM, its adapters trainable."""
        super().__init__(peft_model.get_base_model(), tokenizer)
        # in a tuple, or its parameters would be registered a second time
        self._peft = (peft_model,)
        # under every name: a head that is tied to the embeddings has its own in a state dict
        self._frozen = frozenset(name for name, p in self.named_parameters(remove_duplicate=False) if not p.requires_grad)
        self.register_buffer("base_hash", hash_of(p for _, p in sorted(self.named_parameters()) if not p.requires_grad))
        self.register_state_dict_post_hook(_leave_out_base)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_take_base_from_here)  # type: ignore[no-untyped-call]

    @property
    def adapter_config(self) -> PeftConfig:
        """PEFT's config of the adapters that learn."""
        return self._peft[0].active_peft_config

    @contextmanager
    def base(self) -> Iterator[AdaptedPolicy]:
        """Within, the adapters are off: log-probs are those of the base."""
        with self._peft[0].disable_adapter():
            yield self

    @torch.no_grad()
    def begins_at_base(self) -> bool:
        """The adapters change nothing yet, so that the policy is its base."""
        ids = torch.arange(min(8, self.model.config.get_text_config().vocab_size), device=next(self.parameters()).device)[None]
        mask = torch.ones_like(ids, dtype=torch.bool)
        mask[:, 0] = False
        with dummy_values(self):
            mine = self(ids, mask).logprobs
            with self.base():
                return torch.equal(mine, self(ids, mask).logprobs)

    def merged(self) -> Policy:
        """The base with the adapters added to its weights, without PEFT's layers; this policy is used up."""
        read(self)
        return Policy(self._peft[0].merge_and_unload(), self.tokenizer)

    @torch.no_grad()
    def hugging_face_tensors(self, access: WeightAccess) -> Iterator[tuple[str, Tensor]]:
        """As `Policy.hugging_face_tensors`, one adapted layer at a time, with the weights that PEFT would merge it into.

        Raises:
            NotImplementedError: PEFT trains something that is no weight of the model by its name.
        """
        from peft.tuners.tuners_utils import BaseTunerLayer
        from peft.utils.other import AuxiliaryTrainingWrapper, ModulesToSaveWrapper

        layers = {name: m for name, m in self.model.named_modules() if isinstance(m, BaseTunerLayer | AuxiliaryTrainingWrapper)}
        inside = tuple(f"{name}." for name in layers)
        yield from ((name, access.whole(tensor)) for name, tensor in self.own_tensors() if not name.startswith(inside))
        for owner, layer in layers.items():
            if isinstance(layer, BaseTunerLayer):
                with access.gathered(layer):
                    merged = _merged(layer)
                yield from ((f"{owner}.{name}", tensor) for name, tensor in merged)
            elif isinstance(layer, ModulesToSaveWrapper):
                trained = layer.modules_to_save[layer.active_adapters[0]]
                yield from ((f"{owner}.{name}", access.whole(tensor)) for name, tensor in trained.named_parameters())
            else:
                raise NotImplementedError(f"{owner}: what PEFT's {type(layer).__name__} has learnt cannot be given to an engine")

    def adapter_tensors(self, access: WeightAccess) -> dict[str, Tensor]:
        """The tensors that PEFT stores of the adapters, by their names in the model with adapters."""
        from peft import get_peft_model_state_dict

        model = self._peft[0]
        own = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers(remove_duplicate=False))}
        stored = {id(tensor) for tensor in get_peft_model_state_dict(model, state_dict=own, save_embedding_layers=False).values()}
        return {name: access.whole(tensor).detach() for name, tensor in own.items() if id(tensor) in stored}

    def save(self, folder: str | Path) -> None:
        """Write the adapters (safetensors and their config) and the tokenizer, as PEFT and `SavedAdapters` take them."""
        self.save_adapters(folder, self.adapter_tensors(WeightAccess()))

    def save_adapters(self, folder: str | Path, tensors: dict[str, Tensor]) -> None:
        """As `save`, of tensors that were gathered."""
        with warnings.catch_warnings(), onto_disk(Path(folder)):
            # vocabularies are never resized here, and a base that was made from a seed has no folder to compare with
            warnings.filterwarnings("ignore", message="Could not find a config file in")
            self._peft[0].save_pretrained(folder, save_embedding_layers=False, state_dict=tensors)
        save_tokenizer(self.tokenizer, folder)


def _merged(layer: BaseTunerLayer) -> list[tuple[str, Tensor]]:
    """The layer's own weights with its adapters in them; afterwards they are what they were, to the bit."""
    base: nn.Module = layer.get_base_layer()
    before = [(parameter, parameter.data, parameter.detach().clone()) for parameter in base.parameters()]
    layer.merge()
    merged = [(name, parameter.detach().clone()) for name, parameter in base.named_parameters()]
    with warnings.catch_warnings():
        # some methods cannot divide what they multiplied; the weights are put back below
        warnings.filterwarnings("ignore", message="Unmerge result can be inaccurate")
        layer.unmerge()
    for parameter, storage, values in before:
        parameter.data = storage.copy_(values)
    return merged


def hash_of(parameters: Iterator[nn.Parameter]) -> Tensor:
    """`[16]` uint8, a hash of shapes, dtypes and some values of parameters, in their order."""
    digest = hashlib.blake2b(digest_size=16)
    for parameter in parameters:
        digest.update(f"{tuple(parameter.shape)}{parameter.dtype}".encode())
        if not parameter.is_meta and parameter.numel():
            picked = torch.linspace(0, parameter.numel() - 1, SAMPLED, dtype=torch.float64).round().long()
            digest.update(values_of(parameter).flatten()[picked.to(parameter.device)].float().cpu().numpy().tobytes())
    return torch.tensor(list(digest.digest()), dtype=torch.uint8)


def _leave_out_base(policy: AdaptedPolicy, state: dict[str, Tensor], prefix: str, metadata: object) -> None:
    for name in policy._frozen:
        state.pop(prefix + name, None)


def _take_base_from_here(policy: AdaptedPolicy, state: dict[str, Tensor], prefix: str, *_: object) -> None:
    stored, own = state.get(prefix + "base_hash"), policy.base_hash
    if stored is not None and not torch.equal(stored.to(own), own):
        raise ValueError(
            "the checkpoint's adapters were trained on another base: weights, shapes or dtype of model.policy.base differ. "
            "Give the base that the run began with, in the same dtype"
        )
    for name, parameter in policy.named_parameters(remove_duplicate=False):
        if name in policy._frozen:
            state.setdefault(prefix + name, parameter.detach())
