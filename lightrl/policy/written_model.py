"""Models of transformers as folders of Hugging Face."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor


def write_model(model: Any, folder: str | Path, tensors: Mapping[str, Tensor]) -> None:
    """Write weights and config by `save_pretrained`, which imports no DeepSpeed for it.

    Args:
        model: of transformers.
        folder: where to write.
        tensors: the weights, by the names of the model.
    """
    with _deepspeed_left_alone():
        model.save_pretrained(folder, state_dict=tensors)


@contextmanager
def _deepspeed_left_alone() -> Iterator[None]:
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
