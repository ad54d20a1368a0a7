"""The folder of a run, whatever its logger, and the files that every run writes there: its config, and completions of `predict`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import IO

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger, MLFlowLogger, TensorBoardLogger, WandbLogger

from lightrl.training.policy_module import PolicyModule
from lightrl.types import JSON


def run_folder(trainer: Trainer) -> Path | None:
    """`save_dir/NAME/VERSION` of the first logger; None without any. Every rank must ask, since the first one's answer is broadcast.

    Lightning's `log_dir` is `save_dir` for loggers that keep their logs elsewhere, which all runs would share.
    """
    logger = trainer.loggers[0] if trainer.loggers else None
    if logger is None or isinstance(logger, (TensorBoardLogger, CSVLogger)):
        return None if trainer.log_dir is None else Path(trainer.log_dir)
    name, version = logger.name, logger.version
    if isinstance(logger, WandbLogger):
        name, version = logger.experiment.name, logger.experiment.id
    elif isinstance(logger, MLFlowLogger):
        version, name = logger.run_id, logger._run_name or logger.experiment_id
    folder = Path(logger.save_dir or trainer.default_root_dir) / str(name) / str(version)
    return Path(trainer.strategy.broadcast(str(folder)))


NAME = "config.yaml"
"""Of the file; `config-2.yaml`, ... for the runs that go on in the folder with other settings."""


class SaveResolvedConfig(Callback):
    """Writes the resolved config into the run's folder when the run starts, with what the run has chosen for itself.

    What an earlier run wrote there stays.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._saved = False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Write the file, unless something is still to be chosen."""
        if stage != "fit":
            self._save(trainer, self.text)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write the file, in which `auto` is a number: from it a run has the same micro-batches on every device."""
        tokens = pl_module.learner.budget.tokens if isinstance(pl_module, PolicyModule) else None
        self._save(trainer, re.sub(r"(?m)^( *micro_batch_tokens:) auto$", rf"\1 {tokens}", self.text))

    def _save(self, trainer: Trainer, text: str) -> None:
        folder = run_folder(trainer)  # on every rank: it broadcasts
        if self._saved or folder is None or not trainer.is_global_zero:
            return
        folder.mkdir(parents=True, exist_ok=True)
        number, path = 1, folder / NAME
        while path.exists() and path.read_text() != text:
            number += 1
            path = folder / f"{Path(NAME).stem}-{number}{Path(NAME).suffix}"
        path.write_text(text)
        self._saved = True


class WriteCompletions(Callback):
    """Writes what `predict_step` returns, one JSON value per line, and says where; every rank a file of its own."""

    def __init__(self) -> None:
        self._file: IO[str] | None = None
        self._rows = 0

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        folder = run_folder(trainer) or Path(trainer.default_root_dir)
        folder.mkdir(parents=True, exist_ok=True)
        rank = f"-rank{trainer.global_rank}" if trainer.world_size > 1 else ""
        self._file, self._rows = (folder / f"completions{rank}.jsonl").open("w"), 0

    def on_predict_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: list[JSON], *arguments: object) -> None:
        if self._file is not None:
            self._file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in outputs)
            self._rows += len(outputs)

    def on_predict_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._file is not None:
            self._file.close()
            pl_module.print(f"{self._rows} completions: {self._file.name}")
            self._file = None
