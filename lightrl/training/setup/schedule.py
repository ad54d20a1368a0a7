"""The check that a learning-rate schedule is as long as the run."""

from __future__ import annotations

import math

from lightning.pytorch import Trainer


def planned_steps(trainer: Trainer, batches: float, per_batch: int) -> float:
    """Optimizer steps of a whole run at most; infinite if only a time or a hand ends it.

    Args:
        trainer: that says how many epochs or steps there are.
        batches: training batches per epoch.
        per_batch: optimizer steps per training batch.
    """
    epochs, steps = trainer.max_epochs, trainer.max_steps
    by_epochs = math.inf if epochs is None or epochs < 0 else epochs * batches * per_batch
    return min(by_epochs, math.inf if steps < 0 else steps)


def schedule_length(scheduler: object) -> int | None:
    """Steps after which a schedule of torch has nothing left to say; None: there is none, or it has no end."""
    return getattr(scheduler, "total_steps", None)


def check_schedule(scheduler: object, steps: float) -> None:
    """Refuse a schedule that would end, with an error, before the run does.

    Args:
        scheduler: of torch; None: there is none.
        steps: of the whole run, from `planned_steps`.

    Raises:
        ValueError: it has fewer steps than the run, which would break off in the middle.
    """
    length = schedule_length(scheduler)
    if length is not None and math.isfinite(steps) and length < steps:
        raise ValueError(
            f"model.lr_scheduler.total_steps is {length}, and the run makes up to {int(steps)} optimizer steps: {type(scheduler).__name__} "
            f"would stop it there. Type: --model.lr_scheduler.total_steps {int(steps)}"
        )
