"""Records rollouts, so that `lightrl replay` can learn from them once more."""

import os
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor

from lightrl.callbacks.run_checkpoints import folder_of as checkpoints_of
from lightrl.callbacks.run_checkpoints import is_last
from lightrl.callbacks.run_folder import SaveResolvedConfig, run_folder
from lightrl.strategies.atomic import remove
from lightrl.strategies.disk import in_words, size_of
from lightrl.workers.waiting import waiting
from lightrl_runs.records.record import EngineFacts, notes_of
from lightrl_runs.records.record_files import CHECKPOINT, CONFIG, begun, data_rows, folder_of, write

GB = 10**9


class RecordRollouts(Callback):
    """Writes every so many rollouts, the first included, with all that was learnt from into `records` in the run's folder.

    Once the records are larger than they may be, the oldest go. `lightrl replay` reads them; docs/replay.md says what is in them.
    """

    def __init__(self, every: int = 10, most_gb: float = 1.0, checkpoint: bool = False) -> None:
        """
        Args:
            every: rollouts from one record to the next; at least 1.
            most_gb: gigabytes that all records of the run may take together, their checkpoints included; > 0.
            checkpoint: also write the weights that learn from the rollout; without them a replay ends before the first step, unless a
                checkpoint of the run has them.

        Raises:
            ValueError: a number outside its range.
        """
        if every < 1:
            raise ValueError(f"RecordRollouts needs every >= 1, got {every}")
        if not most_gb > 0:
            raise ValueError(f"RecordRollouts needs most_gb > 0, got {most_gb}")
        self.every, self.most_gb, self.checkpoint = every, most_gb, checkpoint
        self._steps = 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write the weights that the first rollout is learnt from; a ValueError if the module makes no rollouts."""
        if not hasattr(pl_module, "algorithm"):
            raise ValueError(f"RecordRollouts records rollouts, and {type(pl_module).__name__} makes none: leave it out")
        self._save_weights(trainer, trainer.current_epoch)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *arguments: object) -> None:
        """Note how old the weights are."""
        self._steps = trainer.global_step

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *arguments: object) -> None:
        """Write the rollout, if it is one of those."""
        module: Any = pl_module
        if trainer.current_epoch % self.every or module.experience is None:
            return
        batch, rollout, folder = module.experience, trainer.current_epoch + 1, self._folder(trainer, trainer.current_epoch)
        engine = module.collector.engine
        of_run = os.path.relpath(checkpoints_of(trainer) / f"rollout={rollout - 1}.ckpt", folder)
        facts = EngineFacts(type(engine).__name__, engine.exact_logprobs, engine.comparable_logprobs, engine.in_process)
        told = {
            "rollout": rollout,
            "rank": trainer.global_rank,
            "ranks": trainer.world_size,
            "steps": self._steps,
            "algorithm": type(module.algorithm).__name__,
            "checkpoint": CHECKPOINT if self.checkpoint else of_run,
            "engine": facts,
            "numbers": module.numbers,
        }
        if trainer.is_global_zero:
            folder.mkdir(parents=True, exist_ok=True)
            for config in [c for c in trainer.callbacks if isinstance(c, SaveResolvedConfig)]:  # type: ignore[attr-defined]
                (folder / CONFIG).write_text(config.text)
        # the first rank's notes come last of all
        for turn in (False, True):
            if trainer.is_global_zero is turn:
                write(folder, batch, notes_of(batch, told), data_rows(batch, self._rewards(module)))
            trainer.strategy.barrier()
        if trainer.is_global_zero:
            self._make_room(folder.parent.parent)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write the weights that the next rollout is learnt from."""
        if not is_last(trainer):
            self._save_weights(trainer, trainer.current_epoch + 1)

    def _save_weights(self, trainer: Trainer, before: int) -> None:
        if self.checkpoint and before % self.every == 0:
            with waiting("writing a checkpoint for a record"):
                trainer.save_checkpoint(self._folder(trainer, before) / CHECKPOINT, weights_only=False)

    def _folder(self, trainer: Trainer, before: int) -> Path:
        # on every rank: the first one's answer is broadcast
        return folder_of(run_folder(trainer) or Path(trainer.default_root_dir), before + 1)

    def _rewards(self, module: Any) -> Tensor:
        """`[N]`: all rewards of a row added up, with the weights that they had."""
        learnt = module.collector.rewards.rollouts - 1
        return torch.stack(list(module.collector.rewards.contributions(module.experience, rollouts=learnt).values())).sum(0)

    def _make_room(self, run: Path) -> None:
        """Remove the oldest records until the others may stay."""
        sizes = {folder: size_of(folder) for folder in begun(run).values()}
        newest = next(reversed(sizes))
        while sum(sizes.values()) > self.most_gb * GB:
            oldest = next(iter(sizes))
            if oldest == newest:
                rank_zero_warn(
                    f"RecordRollouts: the record of one rollout has {in_words(sizes[oldest])}, more than most_gb {self.most_gb:g} allows: "
                    "it was removed. Raise most_gb, or leave out the checkpoint"
                )
            remove(oldest)
            del sizes[oldest]
