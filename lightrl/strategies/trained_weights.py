"""The weights in a checkpoint of any strategy, read whole on one process and without a run."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lightrl.strategies.checkpoint_files import TAG, contents, states_in
from lightrl.strategies.only_weights import only_weights


def trained_weights(path: Path) -> dict[str, Tensor]:
    """Every weight and buffer of the LightningModule by its name, on the CPU; float32 where DeepSpeed kept such a copy.

    Args:
        path: a checkpoint that `checkpoint_files.check` has found whole.
    """
    if not path.is_dir():
        with only_weights():
            found: dict[str, Tensor] = torch.load(path, map_location="cpu", mmap=True)["state_dict"]
            return found
    # before only_weights, which lets pass what DeepSpeed keeps only where DeepSpeed has been imported
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

    with only_weights(), redirect_stdout(StringIO()):
        return dict(get_fp32_state_dict_from_zero_checkpoint(str(path), tag=TAG))


def notes_in(path: Path) -> dict[str, Any]:
    """The counters and metrics that the run wrote beside the weights."""
    return contents(next(f for f in states_in(path) if f.name.endswith("model_states.pt")) if path.is_dir() else path)
