"""The weights of a checkpoint: read whole without a run, and compared with those of the model that is to have them."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule
from torch import Tensor

from lightrl.strategies.checkpoint_files import TAG, CheckpointError, contents, only_weights, others, states_in

Shapes = dict[str, tuple[int, ...]]


def _shapes_in(held: dict[str, Any]) -> Shapes:
    """Names and shapes of the weights of a checkpoint, of which `notes_in` gives what it holds."""
    if "state_dict" in held:
        return {name: tuple(weight.shape) for name, weight in held["state_dict"].items()}
    # under ZeRO-3 what is in `module` is empty, and its shape stands elsewhere
    groups = [*(held["param_shapes"] or []), held["frozen_param_shapes"] or {}]
    whole = {name: tuple(shape) for group in groups for name, shape in group.items()}
    return {name: tuple(weight.shape) for name, weight in held["module"].items()} | whole


def refuse_shapes(path: Path, module: LightningModule, among: str = "") -> None:
    """Compare the weights of a checkpoint with those of a module that will have them, and go on from it if its loading is strict.

    A module whose `strict_loading` is off may leave weights of the checkpoint alone, and keep frozen weights that are not in it.

    Args:
        among: what the names of the weights begin with that are compared.

    Raises:
        CheckpointError: they are of another model, or a run would go on without the state of its optimizer.
    """
    held = notes_in(path)
    if module.strict_loading:
        refuse_without_optimizer(path, held)
    # under ZeRO-3 a parameter is empty until it is used, and knows its shape
    whole = {name: tuple(parameter.ds_shape) for name, parameter in module.named_parameters() if hasattr(parameter, "ds_shape")}
    there, here = _shapes_in(held), {name: whole.get(name, tuple(weight.shape)) for name, weight in module.state_dict().items()}
    trained = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
    for name in sorted(name for name in there.keys() | here.keys() if name.startswith(among)):
        spared = not module.strict_loading and (name not in here or (name not in there and name not in trained))
        if there.get(name) != here.get(name) and not spared:
            raise CheckpointError(
                f"ckpt_path: {str(path)!r} is of another model: {name} is {_said(there.get(name))} in it and {_said(here.get(name))} "
                f"in this run.\nUse the config of the run that wrote it, which its log folder has as config.yaml. {others(path)}"
            )


def refuse_without_optimizer(path: Path, held: dict[str, Any]) -> None:
    """Raise CheckpointError if a checkpoint, which `held` is the content of, has the weights alone."""
    if "lr_schedulers" not in held:
        raise CheckpointError(
            f"ckpt_path: {str(path)!r} was written without the optimizer (save_weights_only: true), so no run can go on from it.\n"
            f"To train its weights further: lightrl export --ckpt_path {path} --out FOLDER, and --model.policy.path FOLDER"
        )


def _said(shape: tuple[int, ...] | None) -> str:
    return "missing" if shape is None else str(list(shape))


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
