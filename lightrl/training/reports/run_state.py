"""The state of a run in its checkpoints, for those who read a checkpoint without the run."""

from __future__ import annotations

import datetime
from typing import Any

from lightning.pytorch import Trainer


def run_state(trainer: Trainer) -> dict[str, Any]:
    """Metrics, steps and the date."""
    metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
    progress: Any = trainer.fit_loop.epoch_loop.batch_progress.total
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"metrics": metrics, "steps": progress.processed, "date": now}
