"""A resumed run says what is not as it was, and goes on with its curves where the checkpoint ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from rich.console import Console
from rich.table import Table
from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # type: ignore[import-untyped]

from lightrl.training.reports.provenance import differences, provenance_of

KEY = "provenance"
OLD_KEY = "fingerprint"
"""In a checkpoint: what the run was made of."""


class ResumeReport(Callback):
    """Keeps in every checkpoint what the run is made of, and prints what differs before a resumed one goes on.

    Differences are reported and allowed, but for other training prompts, which `PromptData` refuses.
    """

    in_every_run = True

    config: Mapping[str, Any] | None = None
    """The resolved config, where a command line made one."""

    def __init__(self) -> None:
        self._then: Mapping[str, Any] | None = None

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Add the provenance."""
        checkpoint[KEY] = self._now(trainer)

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Take the provenance.

        Raises:
            ValueError: the checkpoint has it under the name of before.
        """
        if OLD_KEY in checkpoint:
            raise ValueError(
                f"the checkpoint keeps under {OLD_KEY!r} what is {KEY!r} now: it was written before lightrl's names became final, and "
                "cannot be resumed. Start a new run, or resume with the version that wrote it"
            )
        self._then = checkpoint.get(KEY)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print what differs, and let TensorBoard forget the points that will be drawn again.

        Raises:
            ValueError: the optimizer is not that of the checkpoint.
        """
        if self._then is None:
            return
        refuse_other_optimizer(trainer)
        if not trainer.is_global_zero:
            return
        found = differences(self._then, self._now(trainer))
        if found:
            Console(stderr=True).print(table_of(found))
        step = trainer.fit_loop.epoch_loop.total_batch_idx + 1
        for logger in trainer.loggers:
            if isinstance(logger, TensorBoardLogger):
                writer = logger.experiment._get_file_writer()
                writer.add_event(Event(step=step, file_version="brain.Event:2"))
                writer.add_event(Event(step=step, session_log=SessionLog(status=SessionLog.START)))

    def _now(self, trainer: Trainer) -> dict[str, Any]:
        data: Any = getattr(trainer, "datamodule", None)
        return provenance_of(self.config, trainer.world_size, data.state_dict().get("order") if data is not None else None)


def refuse_other_optimizer(trainer: Trainer) -> None:
    """Refuse an optimizer that has been given the state of another one, by the settings that it lacks since.

    Raises:
        ValueError: the optimizer is not that of the checkpoint.
    """
    for optimizer in trainer.optimizers:
        needed = getattr(optimizer, "defaults", {}).keys()
        lacking = sorted({name for group in optimizer.param_groups for name in needed - group.keys()})
        if lacking:
            raise ValueError(
                f"model.optimizer: the checkpoint has the state of another optimizer than {type(optimizer).__name__}, without "
                f"{', '.join(lacking)}. Give the optimizer of that run, or begin anew with its weights: lightrl export writes them as a "
                "folder for PretrainedPolicy"
            )


def table_of(found: list[tuple[str, str, str]]) -> Table:
    """A row for each difference: key, then, now."""
    table = Table("key", "checkpoint", "now", title="Resumed with differences", title_justify="left", box=None)
    for row in found:
        table.add_row(*row)
    return table
