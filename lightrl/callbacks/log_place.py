"""Where the log of a run is, and how to look at it."""

from __future__ import annotations

from pathlib import Path

from lightning.pytorch import Trainer
from lightning.pytorch.loggers import CSVLogger, Logger, MLFlowLogger, TensorBoardLogger, WandbLogger


def log_places(trainer: Trainer) -> list[str]:
    """A line or two for each logger of a run."""
    return [line for logger in trainer.loggers for line in _lines(logger)]


def _lines(logger: Logger) -> list[str]:
    if isinstance(logger, TensorBoardLogger):
        watch = f"Log: {logger.log_dir}   Watch: tensorboard --logdir {logger.log_dir}"
        return [watch, "     Look first at the tab Custom scalars for the curves, and at Text for completions and alarms"]
    if isinstance(logger, WandbLogger):
        run = logger.experiment
        folder = Path(run.dir).parent
        where = f"{folder}   Send it: wandb sync {folder}" if run.offline else run.url
        return [f"Log: Weights & Biases, run {run.name}: {where}"]
    if isinstance(logger, MLFlowLogger):
        ui = f"mlflow ui --backend-store-uri {logger._tracking_uri}"
        return [f"Log: MLflow, run {logger._run_name or logger.run_id}   Watch: {ui}"]
    if isinstance(logger, CSVLogger):
        return [f"Log: {Path(logger.log_dir) / 'metrics.csv'}"]
    return [f"Log: {type(logger).__name__}, {logger.name}, {logger.version}"]
