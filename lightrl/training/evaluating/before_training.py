"""The evaluation of a policy before its first step."""

from __future__ import annotations

from lightning.pytorch import Trainer
from lightning.pytorch.core.optimizer import LightningOptimizer


def evaluate_before_training(trainer: Trainer, optimizer: LightningOptimizer) -> None:
    """Run the validation once, if there is any and no step was made yet.

    Args:
        trainer: at the start of its training.
        optimizer: whose gradients are cleared after it.
    """
    if trainer.global_step == 0 and trainer.enable_validation:
        trainer.validating = True
        trainer.fit_loop.epoch_loop.val_loop.run()
        trainer.training = True
        optimizer.zero_grad()
