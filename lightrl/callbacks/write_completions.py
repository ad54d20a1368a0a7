"""`lightrl predict` writes its completions as JSON lines into the run's folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO

from lightning.pytorch import Callback, LightningModule, Trainer

from lightrl.callbacks.run_folder import run_folder


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

    def on_predict_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: list[dict[str, object]],
        batch: object,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if self._file is not None:
            self._file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in outputs)
            self._rows += len(outputs)

    def on_predict_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._file is not None:
            self._file.close()
            pl_module.print(f"{self._rows} completions: {self._file.name}")
            self._file = None
