"""The resolved config in the run's folder."""

from __future__ import annotations

from pathlib import Path

from lightning.pytorch import Callback, LightningModule, Trainer

NAME = "config.yaml"
"""Of the file; `config-2.yaml`, ... for the runs that go on in the folder with other settings."""


class SaveResolvedConfig(Callback):
    """Writes the resolved config into the run's folder when the run starts; what an earlier run wrote there stays."""

    def __init__(self, text: str) -> None:
        """
        Args:
            text: the YAML to write.
        """
        self.text = text
        self._saved = False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Write the file once, on the first rank."""
        log_dir = trainer.log_dir  # on every rank: it broadcasts
        if self._saved or log_dir is None or not trainer.is_global_zero:
            return
        folder = Path(log_dir)
        folder.mkdir(parents=True, exist_ok=True)
        _free_name(folder, self.text).write_text(self.text)
        self._saved = True


def _free_name(folder: Path, text: str) -> Path:
    number, path = 1, folder / NAME
    while path.exists() and path.read_text() != text:
        number += 1
        path = folder / f"{Path(NAME).stem}-{number}{Path(NAME).suffix}"
    return path
