"""Folders of Hugging Face: a model of transformers, and its tokenizer."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from lightrl.text.tokenizer import Tokenizer


def write_model(model: Any, tokenizer: Tokenizer, folder: str | Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as the weights of a model, its config, and the tokenizer with its chat template; DeepSpeed is not imported for it."""
    with _deepspeed_left_alone():
        model.save_pretrained(folder, state_dict=tensors)
    # safetensors lets nobody else read them
    for file in Path(folder).glob("*.safetensors"):
        file.chmod((Path(folder) / "config.json").stat().st_mode)
    save_tokenizer(tokenizer, folder)


def save_tokenizer(tokenizer: Tokenizer, folder: str | Path) -> None:
    """Write the tokenizer with its chat template into a folder."""
    tokenizer.save_pretrained(folder)
    # transformers keeps a seen tokenizer_config without the class if it cannot name it: ours is always the plain fast one
    path = Path(folder) / "tokenizer_config.json"
    config = json.loads(path.read_text())
    config.setdefault("tokenizer_class", "PreTrainedTokenizerFast")
    path.write_text(json.dumps(config, indent=2, ensure_ascii=False))


@contextmanager
def _deepspeed_left_alone() -> Iterator[None]:
    """Within, there is no module `deepspeed`, unless it has been imported."""
    # transformers asks whether the model is an engine of DeepSpeed's, and imports DeepSpeed for that: seconds, and on a machine with CUDA
    # and without its compiler an error. None in sys.modules is Python's own way to say that there is no such module.
    if "deepspeed" in sys.modules:
        yield
        return
    blocked: dict[str, Any] = sys.modules
    blocked["deepspeed"] = None
    try:
        yield
    finally:
        del sys.modules["deepspeed"]
