"""The callbacks that every run of the command line has; one that the config names in its place wins."""

from __future__ import annotations

from lightning.pytorch import Callback
from lightning.pytorch.callbacks import Checkpoint, ProgressBar

from lightrl.callbacks.freeze_garbage import FreezeGarbage
from lightrl.callbacks.no_update import NoUpdate
from lightrl.callbacks.preemption import Preemption, PreemptionCheckpoint
from lightrl.callbacks.rollout_progress import RolloutProgress
from lightrl.callbacks.run_checkpoints import RunCheckpoints
from lightrl.training.default_callbacks import default_callbacks


def defaults_beside(given: list[Callback], bar: bool, checkpoints: bool) -> list[Callback]:
    """The default callbacks that go with those of a config: none of a class that it names itself, one progress bar or none.

    Args:
        given: callbacks of the config.
        bar: a progress bar is wanted.
        checkpoints: checkpoints are wanted.
    """
    own: list[type[Callback]] = [NoUpdate, FreezeGarbage, *([PreemptionCheckpoint] if checkpoints else [Preemption])]
    if checkpoints and not any(isinstance(callback, Checkpoint) for callback in given):
        own.append(RunCheckpoints)
    if bar and not any(isinstance(callback, ProgressBar) for callback in given):
        own.insert(0, RolloutProgress)
    return [*default_callbacks(given), *(cls() for cls in own if cls not in {type(callback) for callback in given})]
