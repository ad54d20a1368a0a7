"""Models of transformers as lightrl takes them: with every weight from their files, without dropout, for some time with other tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from torch import Tensor, nn

ALIGNMENT = 64
"""Bytes of a cache line. Weights that a file maps begin anywhere, and their products take longer."""


def with_every_weight(auto: Any, path: str, head: bool = True, **options: Any) -> Any:
    """The model of a folder or hub id; transformers alone would make up what the files lack, with a warning.

    Args:
        head: the output embeddings are of use; False: the files may do without them.

    Raises:
        ValueError: a weight is in no file.
    """
    model, info = auto.from_pretrained(path, output_loading_info=True, **options)
    missing = set(info["missing_keys"])
    if not head and (embeddings := model.get_output_embeddings()) is not None:
        missing -= {name for name, parameter in model.named_parameters() if any(parameter is own for own in embeddings.parameters())}
    if missing:
        raise ValueError(f"its files have no {min(missing)} ({len(missing)} weights are missing), which would be random")
    for parameter in model.parameters():
        if parameter.device.type == "cpu" and parameter.data_ptr() % ALIGNMENT:
            parameter.data = parameter.data.clone()
    return model


M = TypeVar("M", bound=nn.Module)


def without_dropout(model: M) -> M:
    """The same model with every dropout and jitter at 0: otherwise the ratio of an unchanged policy would differ from 1."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        # residual_dropout, layerdrop, attn_pdrop, router_jitter_noise, ...; some layers read the config in each forward pass
        for holder in (module, getattr(module, "config", None) or module):
            for name in [name for name, value in vars(holder).items() if isinstance(value, float) and ("drop" in name or "jitter" in name)]:
                setattr(holder, name, 0.0)
    return model


class ReplacedTensors:
    """Tensors that take the places of some parameters and buffers of a module; its own are not touched, and come back as they were."""

    def __init__(self, module: nn.Module, instead_of: Callable[[nn.Module, Tensor], Tensor]) -> None:
        """`instead_of`: gives what takes the place of a tensor of one of its modules, or the tensor itself, which then stays."""
        self._others: list[tuple[dict[str, Any], str, Tensor]] = [
            (owner, name, nn.Parameter(other, requires_grad=False) if isinstance(tensor, nn.Parameter) else other)
            for part in module.modules()
            for owner in (part._parameters, part._buffers)
            for name, tensor in owner.items()
            if tensor is not None and (other := instead_of(part, tensor)) is not tensor
        ]

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within, they are there."""
        own = [(owner, name, owner[name]) for owner, name, _ in self._others]
        for owner, name, tensor in self._others:
            owner[name] = tensor
        try:
            yield
        finally:
            for owner, name, tensor in own:
                owner[name] = tensor
