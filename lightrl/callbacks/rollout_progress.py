"""The progress bar: counts rollouts, and shows what phase a long one is in."""

from __future__ import annotations

import sys
import time
from functools import cached_property

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import TQDMProgressBar
from lightning.pytorch.callbacks.progress.tqdm_progress import Tqdm
from lightning.pytorch.utilities.types import STEP_OUTPUT

from lightrl.training.online.policy_optimization import PolicyOptimization
from lightrl.training.policy_module import PolicyModule
from lightrl.training.reports.run_ledger import PhaseObserver

SECONDS_BETWEEN_LINES = 5.0
"""Seconds between two lines of a bar that is not on a terminal, at least."""


class ThrottledBar(Tqdm):
    """A bar that a terminal overwrites, and that a log file does not grow by with every step."""

    _shown = -SECONDS_BETWEEN_LINES

    def display(self, *args: object, **kwargs: object) -> None:
        """Show it, if it is on a terminal, or over, or has not been shown for a while."""
        # tqdm disables a bar before it shows it for the last time
        if self.disable or self._on_terminal or time.monotonic() - self._shown > SECONDS_BETWEEN_LINES:
            super().display(*args, **kwargs)
            self._shown = time.monotonic()

    @cached_property
    def _on_terminal(self) -> bool:
        # asked once, since the system answers slowly in some containers
        return bool(self.fp.isatty())


class RolloutProgress(TQDMProgressBar, PhaseObserver):
    """Lightning's bar with a rollout as its unit, and reward, length and phase beside it."""

    SHOWN = {
        "reward": "reward",
        "completions/mean_length": "length",
        "completions/clipped_ratio": "truncated",
        "val/reward": "val",
        "loss": "loss",
    }
    """Metrics that the bar shows, and under which word."""

    def on_phase(self, phase: str) -> None:
        """Put the name of the phase before the bar."""
        if self.is_enabled and self._train_progress_bar is not None:
            self.train_progress_bar.set_description(f"{self._unit} ({phase})")

    @property
    def counts_rollouts(self) -> bool:
        """True if an epoch is one rollout, so that the bar counts epochs."""
        return isinstance(self.trainer.lightning_module, PolicyOptimization)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Open the bar over all rollouts, at the one a resumed run begins with."""
        super().on_train_start(trainer, pl_module)
        if self.counts_rollouts:
            self.train_progress_bar.reset(trainer.max_epochs if (trainer.max_epochs or -1) > 0 else None)
            self.train_progress_bar.initial = self.train_progress_bar.n = trainer.current_epoch
            self.train_progress_bar.set_description(self._unit)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """A new epoch is no new bar where an epoch is a rollout."""
        if not self.counts_rollouts:
            super().on_train_epoch_start(trainer, pl_module)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: STEP_OUTPUT, batch: object, batch_idx: int) -> None:
        """Move on by one where a batch is the unit."""
        if not self.counts_rollouts:
            super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Move on by one rollout."""
        if not self.counts_rollouts:
            super().on_train_epoch_end(trainer, pl_module)
        elif not self.train_progress_bar.disable:
            self.train_progress_bar.set_description(self._unit, refresh=False)
            self.train_progress_bar.set_postfix(self.get_metrics(trainer, pl_module), refresh=False)
            self.train_progress_bar.update(trainer.current_epoch + 1 - self.train_progress_bar.n)

    def get_metrics(self, trainer: Trainer, pl_module: LightningModule) -> dict[str, int | str | float | dict[str, float]]:
        """The few numbers that fit beside a bar."""
        metrics = {**trainer.callback_metrics, **trainer.logged_metrics}
        shown = dict(self.SHOWN)
        if isinstance(pl_module, PolicyModule) and (rewards := pl_module.collector.rewards) and len(rewards.rewards) > 1:
            # the sum alone does not say whether answers become right
            decides = pl_module.collector.evaluation.correct_reward(rewards.rewards)
            shown |= {f"rewards/{decides}/mean": decides, f"val/rewards/{decides}/mean": f"val_{decides}"}
        return {word: f"{float(metrics[name]):.3g}" for name, word in shown.items() if name in metrics}

    def init_train_tqdm(self) -> Tqdm:
        """The training bar, named after what it counts."""
        return ThrottledBar(
            desc=self._unit, position=2 * self.process_position, disable=self.is_disabled, leave=True, dynamic_ncols=True,
            file=sys.stdout, smoothing=0, bar_format=self.BAR_FORMAT,
        )  # fmt: skip

    def init_validation_tqdm(self) -> Tqdm:
        """No second bar while training: the phase says that the policy is evaluated."""
        return Tqdm(disable=True) if self.trainer.state.fn == "fit" else super().init_validation_tqdm()

    @property
    def _unit(self) -> str:
        return "Rollouts" if self.counts_rollouts else f"Epoch {self.trainer.current_epoch}"
