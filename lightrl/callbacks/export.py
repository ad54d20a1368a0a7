"""Writes the trained policy as a Hugging Face folder at the end of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer


class ExportPolicy(Callback):
    """Saves weights, config, tokenizer and chat template where `PretrainedPolicy` and transformers can read them."""

    def __init__(self, folder: str | None = None) -> None:
        """
        Args:
            folder: where to write; null: `policy` in the folder of the run's log.
        """
        self.folder = folder

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write the folder on the first rank and say where it is."""
        module: Any = pl_module
        with module.adapter.whole_weights():
            if trainer.is_global_zero:
                folder = Path(self.folder or Path(trainer.log_dir or ".") / "policy")
                module.policy.save(folder)
                module.print(f"Policy written to {folder}")
