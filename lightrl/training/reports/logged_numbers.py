"""Numbers on their way to loggers, to callbacks and to those who read a checkpoint without its run."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import torch
from lightning.pytorch import Trainer
from torch import Tensor


def log_numbers(trainer: Trainer, numbers: Mapping[str, float]) -> None:
    """Give numbers to every logger, and to `trainer.callback_metrics` and `trainer.logged_metrics`.

    `LightningModule.log` would make one metric object per name and average it over an epoch of one step, which takes three quarters of what
    a rollout of a small model costs beside its passes.

    Args:
        trainer: in a training step; the number of the step is the x-axis, counted from 0 and over resumes.
        numbers: by name, reduced over ranks already.
    """
    tensors = as_tensors(numbers)
    trainer.callback_metrics.update(tensors)
    trainer.logged_metrics.update(tensors)
    step = trainer.fit_loop.epoch_loop.batch_progress.total.ready - 1
    for logger in trainer.loggers:
        logger.log_metrics({**numbers, "epoch": float(trainer.current_epoch)}, step)
        logger.save()


def as_tensors(numbers: Mapping[str, float]) -> dict[str, Tensor]:
    """The numbers in float32 and a tensor each, as Lightning keeps what is logged; on the CPU, so that no device is waited for."""
    return dict(zip(numbers, torch.tensor(list(numbers.values()), dtype=torch.float32), strict=True))


def run_state(trainer: Trainer) -> dict[str, Any]:
    """Metrics, steps and the date, for those who read a checkpoint without the run."""
    metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
    progress: Any = trainer.fit_loop.epoch_loop.batch_progress.total
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"metrics": metrics, "steps": progress.processed, "date": now}
