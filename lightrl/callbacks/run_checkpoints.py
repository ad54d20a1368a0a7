"""Checkpoints that every run leaves, whatever is in its config: now and then, the best one, and at the end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.trainer.states import TrainerFn

from lightrl.callbacks.run_folder import run_folder
from lightrl.strategies.atomic import name_again
from lightrl.training.online.policy_optimization import PolicyOptimization
from lightrl.workers.waiting import waiting

SCORES = {"val/reward": 1.0, "val/accuracy": 1.0, "val/loss": -1.0}
"""What tells the best checkpoint, the first of them that is logged; 1 where more is better, -1 where less is."""


class RunCheckpoints(Checkpoint):
    """Saves at the end of a run, every so many rollouts and minutes, and when a validation finds the policy better than before.

    The last ones and the best one are kept. A run that a config gives a `ModelCheckpoint` saves as that says.
    """

    def __init__(self, every_rollouts: int = 50, every_minutes: float = 30.0, keep: int = 2, save_weights_only: bool = False) -> None:
        """
        Args:
            every_rollouts: rollouts between two checkpoints, at most; for modules that make none the time decides.
            every_minutes: minutes between two checkpoints, at most.
            keep: how many of the last ones stay, beside the best.
            save_weights_only: leave the optimizer out, two thirds of a checkpoint with AdamW. It can be exported, evaluated and generated
                from, and no run goes on from it; `preempted.ckpt` has the optimizer all the same.

        Raises:
            ValueError: a number below 1.
        """
        for name, value in {"every_rollouts": every_rollouts, "every_minutes": every_minutes, "keep": keep}.items():
            if not value >= 1:
                raise ValueError(f"RunCheckpoints needs {name} of 1 or more, got {value}")
        self.every_rollouts, self.every_minutes, self.keep, self.save_weights_only = every_rollouts, every_minutes, keep, save_weights_only
        self.last: list[str] = []
        """Paths, the newest at the end."""
        self.best_model_path, self.best_score = "", float("-inf")
        """The best one's path and its score, more being better; `ckpt_path: best` takes it."""
        self._saved_at, self._saved_epoch, self._saved_step = time.monotonic(), 0, -1
        self._worse: str | None = None
        """The best one before, while a better one waits for the end of its epoch."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Count from here."""
        self._saved_at, self._saved_epoch = time.monotonic(), trainer.current_epoch

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *arguments: object) -> None:
        """Save in the middle of an epoch, where one takes long."""
        if not trainer.fit_loop.epoch_loop.batch_progress.is_last_batch and self._time_is_up(trainer):
            self._save(trainer, pl_module)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save what is better than all before; at the end of an epoch with what is saved there anyway."""
        name = next((name for name in SCORES if name in trainer.callback_metrics), None)
        learning = trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking and trainer.global_step > 0
        if name is None or not learning or _is_trial(trainer):
            return
        score = SCORES[name] * float(trainer.callback_metrics[name])
        if score > self.best_score:
            self._worse, self.best_score = self.best_model_path, score
            self.best_model_path = self._path(trainer, pl_module, "best-")
            over = trainer.fit_loop.epoch_loop.batch_progress.is_last_batch or 0 <= trainer.max_steps <= trainer.global_step
            if not over:
                self._save_best(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save if it is time, or if this was the last epoch."""
        rollouts = trainer.current_epoch + 1 - self._saved_epoch if isinstance(pl_module, PolicyOptimization) else 0
        if is_last(trainer) or rollouts >= self.every_rollouts or self._time_is_up(trainer):
            self._save(trainer, pl_module)
        if self._worse is not None:
            self._save_best(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save, if the run has ended otherwise than after its last epoch."""
        if trainer.global_step != self._saved_step and trainer.global_step > 0:
            self._save(trainer, pl_module)

    def state_dict(self) -> dict[str, Any]:
        """The checkpoints that are there, so that a resumed run keeps no more than this one would."""
        return {"last": self.last, "best_model_path": self.best_model_path, "best_score": self.best_score}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.last = [path for path in state_dict["last"] if Path(path).exists()]
        # a run that was killed between its last checkpoint and the best one has no file of that name
        if Path(state_dict["best_model_path"]).exists():
            self.best_model_path, self.best_score = state_dict["best_model_path"], state_dict["best_score"]

    def _time_is_up(self, trainer: Trainer) -> bool:
        late = time.monotonic() - self._saved_at > 60 * self.every_minutes
        return bool(trainer.strategy.reduce_boolean_decision(late, all=False))

    def _save(self, trainer: Trainer, module: LightningModule) -> None:
        if _is_trial(trainer):
            return
        path = self._path(trainer, module)
        old = [other for other in self.last if other != path]
        self.last = [*old, path][-self.keep :]
        self._saved_at, self._saved_epoch, self._saved_step = time.monotonic(), trainer.current_epoch + 1, trainer.global_step
        with waiting("writing a checkpoint"):
            trainer.save_checkpoint(path, weights_only=self.save_weights_only)
        for other in old[: len(old) + 1 - self.keep]:
            self._drop(trainer, other)

    def _save_best(self, trainer: Trainer) -> None:
        """Write the best one, or name the last one so if that is of this step: then no byte is written twice."""
        named = self._saved_step == trainer.global_step and bool(self.last)
        if named and trainer.is_global_zero:
            named = name_again(Path(self.last[-1]), Path(self.best_model_path))
        if not trainer.strategy.broadcast(named):
            trainer.save_checkpoint(self.best_model_path, weights_only=self.save_weights_only)
        before, self._worse = self._worse, None
        self._drop(trainer, before or "")

    def _drop(self, trainer: Trainer, path: str) -> None:
        """Remove a checkpoint, unless another run made it: a run that branches off leaves the files of its parent alone."""
        if path and path not in (*self.last, self.best_model_path) and Path(path).parent == folder_of(trainer):
            trainer.strategy.remove_checkpoint(path)

    def _path(self, trainer: Trainer, module: LightningModule, prefix: str = "") -> str:
        made = f"rollout={trainer.current_epoch + 1}" if isinstance(module, PolicyOptimization) else f"step={trainer.global_step}"
        return str(folder_of(trainer) / f"{prefix}{made}.ckpt")


def folder_of(trainer: Trainer) -> Path:
    """Where the checkpoints of a run are; asked on every rank, since the first one's answer is broadcast."""
    return (run_folder(trainer) or Path(trainer.default_root_dir)) / "checkpoints"


def _is_trial(trainer: Trainer) -> bool:
    return bool(getattr(trainer, "fast_dev_run", False))


def is_last(trainer: Trainer) -> bool:
    """No epoch follows this one."""
    epochs, steps = trainer.max_epochs, trainer.max_steps
    over = epochs is not None and epochs != -1 and trainer.current_epoch + 1 >= epochs
    return trainer.should_stop or over or (steps != -1 and trainer.global_step >= steps)
