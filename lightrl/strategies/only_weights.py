"""Reading files of torch without executing what is in them, however a library asks for it."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

FORCE, FORBID = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
KEPT_BY_DEEPSPEED = {
    "deepspeed.runtime.fp16.loss_scaler.DynamicLossScaler",
    "deepspeed.runtime.fp16.loss_scaler.LossScaler",
    "deepspeed.runtime.zero.config.ZeroStageEnum",
    "deepspeed.utils.tensor_fragment.fragment_address",
}
"""Plain records in DeepSpeed's files, whose construction does nothing."""


@contextmanager
def only_weights() -> Iterator[None]:
    """Within, every `torch.load` of this process takes tensors, plain values and what DeepSpeed keeps, and refuses all else.

    DeepSpeed asks for `weights_only=False` in several places; torch's own switch overrules each of them.

    Source: https://docs.pytorch.org/docs/stable/notes/serialization.html
    """
    before = {name: os.environ.pop(name, None) for name in (FORCE, FORBID)}
    os.environ[FORCE] = "1"
    try:
        with torch.serialization.safe_globals(_kept_by_deepspeed()):
            yield
    finally:
        del os.environ[FORCE]
        os.environ.update({name: value for name, value in before.items() if value is not None})


def unsafe_names(path: str | os.PathLike[str]) -> list[str]:
    """Classes and functions that a file of `torch.save` refers to and `only_weights` refuses, found without loading it."""
    return sorted(set(torch.serialization.get_unsafe_globals_in_checkpoint(os.fspath(path))) - KEPT_BY_DEEPSPEED)


def _kept_by_deepspeed() -> list[Any]:
    # where DeepSpeed is not in use its import is left out: it takes seconds
    found = [name.rpartition(".") for name in sorted(KEPT_BY_DEEPSPEED)] if "deepspeed" in sys.modules else []
    return [getattr(importlib.import_module(module), name) for module, _, name in found]
