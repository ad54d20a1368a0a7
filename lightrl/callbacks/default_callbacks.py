"""The callbacks that every run has; one that the config names in its place wins."""

from __future__ import annotations

from lightning.pytorch import Callback
from lightning.pytorch.callbacks import Checkpoint, ProgressBar

from lightrl.training.watching import WATCHING, made

DEFAULT_CALLBACKS = [
    "lightrl.callbacks.rollout_progress.RolloutProgress",
    *WATCHING,
    "lightrl.callbacks.no_update.NoUpdate",
    "lightrl.callbacks.standing_objects.StandingObjects",
]
"""Import paths of callback classes that take no argument: those that watch any run, and those of the command line."""
SAVING = ["lightrl.callbacks.run_checkpoints.RunCheckpoints", "lightrl.callbacks.preemption.PreemptionCheckpoint"]
"""Those of runs that write checkpoints; the first only if the config names none like it."""
NOT_SAVING = ["lightrl.callbacks.preemption.Preemption"]
"""Those of runs that write none."""


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
    others = [c for c in made(paths) if type(c) not in {type(callback) for callback in given}]
    return [c for c in others if bar or not isinstance(c, ProgressBar)]
