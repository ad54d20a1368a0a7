"""The resolved config in the run's folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from lightrl.callbacks.run_folder import run_folder

NAME = "config.yaml"
"""Of the file; `config-2.yaml`, ... for the runs that go on in the folder with other settings."""


class SaveResolvedConfig(Callback):
    """Writes the resolved config into the run's folder when the run starts, with what the run has chosen for itself.

    What an earlier run wrote there stays.
    """

    def __init__(self, text: str) -> None:
        """
        Args:
            text: the YAML to write.
        """
        self.text = text
        self._saved = False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Write the file, unless something is still to be chosen."""
        if stage != "fit":
            self._save(trainer, self.text)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write the file, in which `auto` is a number: from it a run has the same micro-batches on every device."""
        module: Any = pl_module
        tokens = module.learner.budget.tokens if hasattr(module, "learner") else None
        self._save(trainer, re.sub(r"(?m)^( *micro_batch_tokens:) auto$", rf"\1 {tokens}", self.text))

    def _save(self, trainer: Trainer, text: str) -> None:
        folder = run_folder(trainer)  # on every rank: it broadcasts
        if self._saved or folder is None or not trainer.is_global_zero:
            return
        folder.mkdir(parents=True, exist_ok=True)
        _free_name(folder, text).write_text(text)
        self._saved = True


def _free_name(folder: Path, text: str) -> Path:
    number, path = 1, folder / NAME
    while path.exists() and path.read_text() != text:
        number += 1
        path = folder / f"{Path(NAME).stem}-{number}{Path(NAME).suffix}"
    return path
