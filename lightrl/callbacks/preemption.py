"""SIGTERM and Ctrl-C end a run at the next place that it can be resumed from; schedulers send the first before they take the machine."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any, Never

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint, ModelCheckpoint

from lightrl.callbacks.run_checkpoints import folder_of
from lightrl.callbacks.stop_all_ranks import started_by_rank_0
from lightrl.ranks import local_rank
from lightrl.training.reports.run_ledger import PhaseObserver

LIMIT_S = 60.0
"""Seconds that a rollout which is made ahead has to be complete, from the signal on; it is part of the checkpoint."""
RESUME = "Resume with the same command and --ckpt_path last"
SIGNALS = {signal.SIGTERM: "SIGTERM", signal.SIGINT: "Ctrl-C"}
"""The signals, and what a person calls them. A run ends with 128 and the number of the signal, 143 or 130, as if that had ended it."""


class Preemption(Callback, PhaseObserver):
    """On the first SIGTERM or Ctrl-C, to any rank, ends all ranks after the present rollout; a second one ends at once.

    Lightning's own handler sends a message to the other ranks from inside the signal handler, whatever they are busy with.
    """

    def __init__(self) -> None:
        self._asked_at = 0.0
        self._by = signal.SIGTERM
        self._former: dict[signal.Signals, Any] = {}
        self._saved: tuple[int, int] | None = None
        self._trainer: Trainer | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Take the signals over, SIGTERM from Lightning; end at once if it has come already."""
        self._asked = self._agreed = False
        self._trainer = trainer
        if threading.current_thread() is threading.main_thread():
            self._former = {number: signal.signal(number, self._ask) for number in SIGNALS}
        # nothing has been done that could be lost, and Lightning would end the run in the middle of the first rollout
        self._asked |= trainer.received_sigterm
        self._agree(trainer)
        if self._agreed:
            self._end(trainer)

    def on_train_batch_end(self, trainer: Trainer, *arguments: object) -> None:
        """Agree on whether to stop; in the middle of an epoch this is a place to be resumed from."""
        self._agree(trainer)
        if self._agreed and not trainer.fit_loop.epoch_loop.batch_progress.is_last_batch:
            self.keep(trainer)

    def on_train_batch_start(self, trainer: Trainer, *arguments: object) -> None:
        """End the run, if that was agreed on."""
        if self._agreed:
            self._end(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Agree on whether to stop, with a rank that got the signal during a validation."""
        self._agree(trainer)
        if self._agreed:
            self.keep(trainer)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """End the run, if that was agreed on and it is not over anyway."""
        if self._agreed:
            self._end(trainer)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Note that the run can be resumed from here."""
        self._saved = trainer.current_epoch, trainer.global_step

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Give the signals back."""
        for number, handler in self._former.items():
            signal.signal(number, handler)
        self._former = {}

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Give the signals back: what has failed is not torn down."""
        self.teardown(trainer, pl_module, "fit")

    def keep(self, trainer: Trainer) -> None:
        """Nothing is saved where checkpoints are switched off."""

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._asked, self._asked_at, self._by = True, time.monotonic(), signal.Signals(number)
        # the kernel carries out a second one, whatever this process is doing
        for each in SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        if local_rank() == 0:
            name = SIGNALS[self._by]
            os.write(2, f"\n{name}: the run ends after the present rollout. A second {name} ends it at once.\n".encode())

    def _agree(self, trainer: Trainer) -> None:
        self._agreed = self._agreed or trainer.strategy.reduce_boolean_decision(self._asked, all=False)

    def on_wait(self) -> None:
        """End the run without a rollout that takes too long."""
        trainer = self._trainer
        if trainer is not None and self._asked and time.monotonic() - self._asked_at > LIMIT_S:
            last = f"The last checkpoint holds. {RESUME}" if self._saved else "There is no checkpoint"
            self._leave(trainer, f"ended in rollout {trainer.current_epoch + 1}; the next one was not complete after {LIMIT_S:g} s. {last}")

    def _end(self, trainer: Trainer) -> None:
        kept = f"A checkpoint is written. {RESUME}" if self._saved else "No checkpoint was written"
        self._leave(trainer, f"ended before rollout {trainer.current_epoch + 1}. {kept}" if trainer.is_global_zero else None)

    def _leave(self, trainer: Trainer, said: str | None) -> Never:
        if said is not None:
            # the bar stands on the present line
            os.write(2, f"\n{SIGNALS[self._by]}: {said}.\n".encode())
        raise SystemExit(0 if started_by_rank_0(trainer) else 128 + self._by)


class PreemptionCheckpoint(Preemption, Checkpoint):
    """Preemption that leaves a checkpoint, `preempted.ckpt` beside the others, unless one was written in the same place anyway."""

    NAME = "preempted.ckpt"
    """Its file or folder; removed when a later checkpoint is complete."""
    _kept: tuple[int, int] | None = None

    def keep(self, trainer: Trainer) -> None:
        """Save; after all other checkpoints, which Lightning's order of callbacks sees to."""
        if self._saved != (trainer.current_epoch, trainer.global_step):
            trainer.save_checkpoint(self._path(trainer), weights_only=False)
            self._kept = self._saved

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_train_epoch_start(trainer, pl_module)
        self._remove(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Remove what an earlier part of the run has left, at the latest."""
        self._remove(trainer)

    def _remove(self, trainer: Trainer) -> None:
        if self._saved != self._kept:
            trainer.strategy.remove_checkpoint(self._path(trainer))

    def _path(self, trainer: Trainer) -> Path:
        folders = [c.dirpath for c in trainer.checkpoint_callbacks if isinstance(c, ModelCheckpoint) and c.dirpath]
        return Path(folders[0] if folders else folder_of(trainer)) / self.NAME
