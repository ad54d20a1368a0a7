"""A run that has learnt nothing has failed; a resumed one with nothing left to do has not."""

from __future__ import annotations

import sys

from lightning.pytorch import Callback, LightningModule, Trainer

from lightrl.run_end import RunEndedError
from lightrl.training.online.policy_optimization import PolicyOptimization
from lightrl.training.policy_module import PolicyModule

REASONS = {
    "unscorable_ratio": "had no score, since a reward failed or all of them abstained",
    "environment/failed": "had an environment that failed",
    "completions/clipped_ratio": "were cut off at max_new_tokens, which a part may mask",
}
"""Shares of the last rollout's completions that explain a skipped update where they are above 0, in words."""


class NoUpdate(Callback):
    """Ends a run with an error if every update that it attempted was skipped."""

    _began: tuple[int, int] | None

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Nothing has begun."""
        self._began = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Note where the run begins."""
        self._began = trainer.global_step, trainer.fit_loop.epoch_loop.total_batch_idx

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Compare with where it ends, once everything is written; a RunEndedError if updates were attempted, and none was made."""
        if self._began is None:
            if trainer.is_global_zero:
                sys.stderr.write("Nothing was left to do: the checkpoint is at the end of the run.\n")
            return
        steps, batches = self._began
        attempts = trainer.fit_loop.epoch_loop.total_batch_idx - batches
        if attempts > 0 and trainer.global_step == steps:
            unit = "rollouts" if isinstance(pl_module, PolicyOptimization) else "batches"
            numbers = pl_module.numbers if isinstance(pl_module, PolicyModule) else {}
            told = [f"{numbers[name]:.0%} {words}" for name, words in REASONS.items() if numbers.get(name, 0) > 0]
            why = f"Of the last completions {'; '.join(told)}." if told else "No token had a weight in the loss."
            raise RunEndedError(f"nothing was learnt: every update of {attempts:,} {unit} was skipped.\n{why}")
