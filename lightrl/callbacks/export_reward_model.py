"""Writes a reward model as a Hugging Face folder, at the end of a run and, if wanted, on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from lightrl.callbacks.export_policy import write_policy
from lightrl.callbacks.run_folder import run_folder


class ExportRewardModel(Callback):
    """Saves weights, head, tokenizer and chat template where the reward `RewardModel` and the critic `ValueModel` can read them."""

    def __init__(self, folder: str | None = None, every_n_steps: int | None = None) -> None:
        """
        Args:
            folder: where to write; null: `reward_model` in the folder of the run's log.
            every_n_steps: also write `reward_model-step-N`, beside that folder and named after it, after every so many optimizer steps;
                null: only at the end.

        Raises:
            ValueError: every_n_steps below 1.
        """
        if every_n_steps is not None and every_n_steps < 1:
            raise ValueError(f"ExportRewardModel needs every_n_steps >= 1 or null, got {every_n_steps}")
        self.folder, self.every_n_steps = folder, every_n_steps

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *args: object) -> None:
        """Write the folder of this step, if it is one to be written."""
        if self.every_n_steps is not None and trainer.global_step % self.every_n_steps == 0:
            folder = self._folder(trainer)
            self._write(trainer, pl_module, folder.with_name(f"{folder.name}-step-{trainer.global_step}"))

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write the folder on the first rank and say where it is."""
        self._write(trainer, pl_module, self._folder(trainer))

    def _folder(self, trainer: Trainer) -> Path:
        return Path(self.folder or (run_folder(trainer) or Path()) / "reward_model").expanduser()

    def _write(self, trainer: Trainer, pl_module: LightningModule, folder: Path) -> None:
        module: Any = pl_module
        with module.learner.adapter.gathered_weights():
            if trainer.is_global_zero:
                write_policy(module.policy, folder)
                module.print(f"Reward model written to {folder}")
