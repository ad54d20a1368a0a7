"""A causal LM made from its folder while its weights stay in their files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from lightrl.ops.lazy import CannotStayLazyError, LazyParameter

if TYPE_CHECKING:
    from transformers import PreTrainedModel

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


@dataclass(frozen=True)
class SavedTensor:
    """A tensor in a file of safetensors."""

    file: str
    """Path of the file."""
    name: str
    """Name of the tensor."""
    shape: tuple[int, ...]
    """As the beginning of the file says."""

    def __call__(self) -> Tensor:
        """The tensor; its pages are read as they are used."""
        from safetensors import safe_open

        with safe_open(self.file, "pt") as file:
            found: Tensor = file.get_tensor(self.name)
            return found


def lazy_model(
    path: str, dtype: torch.dtype, trust_remote_code: bool = False, revision: str = "main", gguf_file: str | None = None, **options: Any
) -> PreTrainedModel:
    """The model with parameters that have not been read, and with everything else as `from_pretrained` makes it.

    Args:
        path: a folder written by `save_pretrained`, or a hub id.
        gguf_file: the name of such a file in the folder, whose weights are quantized.
        **options: for `from_config`, such as `attn_implementation`.

    Raises:
        CannotStayLazyError: the files are of another format, or name other weights than the model has.
        OSError: there is no such model.
        RuntimeError: a weight has another shape than in the model.
    """
    from accelerate import init_empty_weights
    from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

    if gguf_file is not None:
        raise CannotStayLazyError("a GGUF file is dequantized as a whole")
    config: Any = AutoConfig.from_pretrained(path, trust_remote_code=trust_remote_code, revision=revision)
    saved = _saved(path, revision)
    if getattr(config, "quantization_config", None) is not None:
        raise CannotStayLazyError("its weights are quantized")
    with init_empty_weights(include_buffers=False):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, trust_remote_code=trust_remote_code, **options)
    # what is tied came apart when each was put on the meta device
    model.tie_weights()
    if dtype != torch.float32 and getattr(model, "_keep_in_fp32_modules", None):
        raise CannotStayLazyError(f"{type(model).__name__} keeps some weights in float32")
    _leave_in_files(model, saved)
    try:
        model.generation_config = GenerationConfig.from_pretrained(path, revision=revision)
    except OSError:
        # a folder need not have one, and the model has made its own
        model.generation_config = GenerationConfig.from_model_config(config)
    return model


def _saved(path: str, revision: str) -> dict[str, SavedTensor]:
    """The saved tensors by their names."""
    from transformers.utils import cached_file

    index = cached_file(path, INDEX, revision=revision, _raise_exceptions_for_missing_entries=False)
    if index is not None:
        places: dict[str, str] = json.loads(Path(index).read_text())["weight_map"]
        files = {file: _tensors_in(str(cached_file(path, file, revision=revision))) for file in sorted(set(places.values()))}
        return {name: files[file][name] for name, file in places.items() if name in files[file]}
    file = cached_file(path, WEIGHTS, revision=revision, _raise_exceptions_for_missing_entries=False)
    if file is None:
        raise CannotStayLazyError(f"there is no {WEIGHTS} and no {INDEX}")
    return _tensors_in(str(file))


def _tensors_in(file: str) -> dict[str, SavedTensor]:
    from safetensors import safe_open

    with safe_open(file, "pt") as opened:
        return {name: SavedTensor(file, name, tuple(opened.get_slice(name).get_shape())) for name in opened.keys()}  # noqa: SIM118


@torch.no_grad()
def _leave_in_files(model: nn.Module, saved: dict[str, SavedTensor]) -> None:
    persistent = [(name, buffer) for name, buffer in model.named_buffers() if name in model.state_dict()]
    names = [name for name, _ in model.named_parameters()] + [name for name, _ in persistent]
    if missing := [name for name in names if name not in saved]:
        raise CannotStayLazyError(f"its files name other weights than {type(model).__name__} has: {missing[0]} is not among them")
    for name, tensor in (*model.named_parameters(), *persistent):
        if tensor.shape != saved[name].shape:
            raise RuntimeError(f"{name} is {list(saved[name].shape)} in the files and {list(tensor.shape)} in {type(model).__name__}")
    for name, buffer in persistent:
        buffer.copy_(saved[name]())
    lazy = {parameter: LazyParameter.like(parameter, saved[name]) for name, parameter in model.named_parameters()}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            module.register_parameter(name, lazy[parameter])
