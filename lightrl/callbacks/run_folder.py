"""The folder of a run, in which its config and its checkpoints are, whatever its logger."""

from __future__ import annotations

from pathlib import Path

from lightning.pytorch import Trainer
from lightning.pytorch.loggers import CSVLogger, MLFlowLogger, TensorBoardLogger, WandbLogger


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
