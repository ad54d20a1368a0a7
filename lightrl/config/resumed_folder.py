"""A run that is resumed from its newest checkpoint goes on in that checkpoint's own folder."""

from __future__ import annotations

from pathlib import Path

from lightning.pytorch.loggers import Logger, TensorBoardLogger


def continue_in_folder_of(checkpoint: str | None, loggers: list[Logger]) -> None:
    """Give loggers whose version is not chosen the version of the checkpoint, so that curves and checkpoints stay together.

    From an earlier checkpoint a run branches off: it gets a version of its own, and what came later stays as it is.

    Args:
        checkpoint: to start from; None: the run is new.
        loggers: of the run, not yet used.
    """
    if checkpoint is None:
        return
    path = Path(checkpoint).expanduser().resolve()
    versions = path.parent.parent
    if path.parent.name != "checkpoints" or any(p.lstat().st_mtime > path.lstat().st_mtime for p in path.parent.glob("*.ckpt")):
        return
    for logger in loggers:
        free = isinstance(logger, TensorBoardLogger) and logger._version is None
        if free and Path(logger.root_dir or "").resolve() == versions.parent and versions.name.startswith("version_"):
            logger._version = versions.name  # type: ignore[attr-defined]
