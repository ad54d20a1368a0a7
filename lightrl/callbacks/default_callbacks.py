"""The callbacks that every run has; one that the config names in its place wins."""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from lightning.pytorch import Callback
from lightning.pytorch.callbacks import Checkpoint, ProgressBar

DEFAULT_CALLBACKS = [
    "lightrl.callbacks.rollout_progress.RolloutProgress",
    "lightrl.callbacks.sizes_table.SizesTable",
    "lightrl.callbacks.stated_exceptions.StatedExceptions",
    "lightrl.callbacks.completions_log.CompletionsLog",
    "lightrl.callbacks.alarms.Alarms",
    "lightrl.callbacks.dashboard.Dashboard",
    "lightrl.callbacks.histograms.Histograms",
    "lightrl.callbacks.stop_all_ranks.StopAllRanks",
    "lightrl.callbacks.resume_report.ResumeReport",
    "lightrl.callbacks.run_summary.RunSummary",
    "lightrl.callbacks.no_update.NoUpdate",
    "lightrl.callbacks.standing_objects.StandingObjects",
]
"""Import paths of callback classes that take no argument."""
SAVING = ["lightrl.callbacks.run_checkpoints.RunCheckpoints", "lightrl.callbacks.preemption.PreemptionCheckpoint"]
"""Those of runs that write checkpoints; the first only if the config names none like it."""
NOT_SAVING = ["lightrl.callbacks.preemption.Preemption"]
"""Those of runs that write none."""


def default_callbacks(paths: Iterable[str]) -> list[Callback]:
    """One of each, new for every run."""
    classes = [path.rpartition(".") for path in paths]
    return [getattr(importlib.import_module(module), name)() for module, _, name in classes]


def defaults_beside(given: list[Callback], bar: bool, checkpoints: bool) -> list[Callback]:
    """The default callbacks that go with those of a config: none of a class that it names itself, one progress bar or none.

    Args:
        given: callbacks of the config.
        bar: a progress bar is wanted.
        checkpoints: checkpoints are wanted.
    """
    bar = bar and not any(isinstance(callback, ProgressBar) for callback in given)
    saving = SAVING[1:] if any(isinstance(callback, Checkpoint) for callback in given) else SAVING
    paths = [*DEFAULT_CALLBACKS, *(saving if checkpoints else NOT_SAVING)]
    others = [c for c in default_callbacks(paths) if type(c) not in {type(callback) for callback in given}]
    return [c for c in others if bar or not isinstance(c, ProgressBar)]
