"""The outcome of a run, in a few lines at its end."""

from __future__ import annotations

import time
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, Logger, MLFlowLogger, TensorBoardLogger, WandbLogger
from rich.console import Console
from rich.table import Table

from lightrl.callbacks.run_checkpoints import RunCheckpoints
from lightrl.training.online.policy_optimization import PolicyOptimization
from lightrl.training.reports.run_ledger import place_in_log

SHOWN = [
    "val/reward",
    "val/rewards/*/mean",
    "val/metrics/*",
    "val/avg@*",
    "val/pass@*",
    "val/maj@*",
    "val/accuracy",
    "val/rewards/accuracies",
    "val/rewards/margins",
    "val/loss",
]
"""Patterns of the metrics that are shown, the most telling first."""


class RunSummary(Callback):
    """Prints held-out numbers of the first and the last evaluation, what was done in which time, and where it all is."""

    in_every_run = True

    def __init__(self) -> None:
        self._started = 0.0
        self._evaluations: dict[int, dict[str, float]] = {}

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Start the clock, before a checkpoint is read."""
        self._started = time.monotonic()

    def state_dict(self) -> dict[str, Any]:
        """Seconds and evaluations that a run which goes on from here has behind it."""
        return {"seconds": time.monotonic() - self._started, "evaluations": self._evaluations}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        self._started -= state_dict["seconds"]
        self._evaluations = state_dict["evaluations"]

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Remember what was found."""
        found = trainer.callback_metrics
        shown = {name: float(found[name]) for pattern in SHOWN for name in sorted(found) if fnmatch(name, pattern)}
        self._evaluations[place_in_log(trainer)] = shown

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print on the first rank."""
        if trainer.is_global_zero:
            Console(stderr=True, soft_wrap=True).print(self.table(trainer, pl_module))

    def table(self, trainer: Trainer, module: LightningModule) -> Table:
        """The table that is printed."""
        done, seconds, unit = f"{trainer.global_step:,} optimizer steps", f"{time.monotonic() - self._started:.0f} s", "step"
        if isinstance(module, PolicyOptimization):
            done, unit = f"{type(module.algorithm).__name__}: {trainer.current_epoch:,} rollouts, {done}", "rollout"
        table = Table(title=f"{done}, {seconds}", title_justify="left", box=None, show_header=bool(self._evaluations))
        table.add_column("held out")
        shown = sorted({min(self._evaluations), max(self._evaluations)}) if self._evaluations else []
        for when in shown:
            table.add_column("at the start" if when == 0 else f"after {unit} {when:,}", justify="right")
        for name in self._evaluations[shown[-1]] if shown else ():
            numbers = [self._evaluations[when].get(name) for when in shown]
            table.add_row(name.removeprefix("val/"), *("-" if number is None else f"{number:.3f}" for number in numbers))
        logs = [line for logger in trainer.loggers for line in log_lines(logger)]
        table.caption, table.caption_justify = "\n".join([*logs, f"Checkpoint: {checkpoint_of(trainer)}"]), "left"
        return table


def checkpoint_of(trainer: Trainer) -> str:
    """The path of the last checkpoint of a run, and the best one's where it is another; or none, and why."""
    paths = dict[str, str]()
    for callback in trainer.checkpoint_callbacks:
        if isinstance(callback, RunCheckpoints):
            paths |= {"last": callback.last[-1] if callback.last else "", "best": callback.best_model_path}
        elif isinstance(callback, ModelCheckpoint):
            paths |= {"last": callback.last_model_path or callback.best_model_path, "best": callback.best_model_path}
    found = {name: path for name, path in paths.items() if path}
    if found.get("best") and found.get("last") not in (None, found["best"]):
        return f"{found['last']}   Best: {found['best']}"
    if found:
        return next(iter(found.values()))
    why = "the one that the config names has not saved any" if paths else "trainer.enable_checkpointing is false, or the run was a trial"
    return f"none, because {why}"


def log_lines(logger: Logger) -> list[str]:
    """A line or two on where the log of a run is."""
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
