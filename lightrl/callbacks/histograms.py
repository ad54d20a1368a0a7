"""Histograms of advantages, ratios, rewards and lengths, every so many rollouts."""

from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from lightrl.callbacks.logged_texts import writers
from lightrl.ranges import Count, refuse_outside
from lightrl.training.online.policy_optimization import PolicyOptimization
from lightrl.training.reports.run_ledger import place_in_log

SHOWN = {
    "advantages/mean": "advantages",
    "ratio/mean": "ratio",
    "reward": "reward",
    "completions/mean_length": "length",
    "completions/mean_length_right": "length_right",
    "completions/mean_length_wrong": "length_wrong",
}
"""Numbers whose single values are drawn, and as what, below `histograms/`."""
HUGE = 1e19
"""The bins of TensorBoard end below; a value beyond them is left out, as one that is not finite."""
MOST = 100_000
"""Values of a histogram; of more, every second, third, ... is taken."""


class Histograms(Callback):
    """Draws how the values of a rollout are spread, those of the first rank: advantages and ratios per token, the others per completion."""

    in_every_run = True

    def __init__(self, every_n_rollouts: Count = 10) -> None:
        """
        Args:
            every_n_rollouts: rollouts from one to the next.
        """
        self.every_n_rollouts = every_n_rollouts
        refuse_outside(type(self), vars(self))

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *arguments: object) -> None:
        """Have the values of this rollout kept, if it is one of those."""
        due = trainer.current_epoch % self.every_n_rollouts == 0
        if isinstance(pl_module, PolicyOptimization) and due and self._writers(trainer):
            pl_module.ledger.kept.update({name: [] for name in SHOWN})

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *arguments: object) -> None:
        """Draw what was kept."""
        kept = pl_module.ledger.kept if isinstance(pl_module, PolicyOptimization) else {}
        for name, parts in kept.items():
            values = torch.cat(parts).cpu() if parts else torch.empty(0)
            values = values[values.abs() < HUGE][:: 1 + len(values) // MOST]
            for writer in self._writers(trainer) if len(values) else []:
                writer.add_histogram(f"histograms/{SHOWN[name]}", values, place_in_log(trainer))
        kept.clear()

    def _writers(self, trainer: Trainer) -> list[Any]:
        return [writer for logger in trainer.loggers for writer in writers(logger, "add_histogram") if trainer.is_global_zero]
