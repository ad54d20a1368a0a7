"""A Lightning Trainer that says nothing and writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lightning.pytorch import Callback, Trainer


def quiet_trainer(*, callbacks: Sequence[Callback] = (), **settings: Any) -> Trainer:
    """A Trainer on one CPU without progress bar, summary of the model, logger and checkpoints.

    Example: `quiet_trainer(max_epochs=2).fit(module, datamodule=PromptData(train=DigitSorting()))` makes two rollouts.

    Args:
        callbacks: of the run; a `Checkpoint` or a `ProgressBar` among them does its work.
        settings: further arguments of `lightning.pytorch.Trainer`, also in place of those that this function sets.
    """
    from lightning.pytorch import Trainer
    from lightning.pytorch.callbacks import Checkpoint, ProgressBar

    from lightrl.training.policy_module import NoDefaultCallbacks

    quiet = {
        "accelerator": "cpu",
        "devices": 1,
        "logger": False,
        "enable_checkpointing": any(isinstance(callback, Checkpoint) for callback in callbacks),
        "enable_progress_bar": any(isinstance(callback, ProgressBar) for callback in callbacks),
        "enable_model_summary": False,
    }
    return Trainer(callbacks=[NoDefaultCallbacks(), *callbacks], **{**quiet, **settings})
