"""Trials of an optimizer and its schedule before anything is trained: what torch would refuse later is refused now."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import Timer
from torch import nn

from lightrl.training.setup.trainer_options import callbacks_of

STEPS = 1000
"""The most steps that are tried."""
FARTHEST = 1e6
"""A weight that has moved farther from 1 than this is lost to 32-bit floats, whatever the policy was."""
USUAL_RATE = 10.0
"""Largest learning rate without a warning."""


def tried_schedule(
    optimizer_of: Callable[[list[dict[str, Any]]], torch.optim.Optimizer],
    schedule_of: Callable[[torch.optim.Optimizer], object] | None,
    groups: int,
    device: torch.device,
) -> Any:
    """The schedule, if any, of an optimizer that has made steps on gradients of norm 1, for as long as it has something to say.

    A ValueError names the key where torch refuses an argument, a learning rate is no number of 0 or more, or weights are lost.
    """
    parameters = [{"params": [nn.Parameter(torch.ones(shape, device=device)) for shape in ((1,), (2, 2))]} for _ in range(groups)]
    with _refusals("model.optimizer", optimizer_of):
        optimizer = optimizer_of(parameters)
    schedule: Any = None
    if schedule_of is not None:
        with _refusals("model.lr_scheduler", schedule_of):
            schedule = schedule_of(optimizer)
    rates = list(_rates(optimizer, schedule, optimizer_of, schedule_of))
    if max(rates) > USUAL_RATE:
        warnings.warn(f"the learning rate reaches {max(rates):g}: a policy seldom survives more than {USUAL_RATE:g}", stacklevel=2)
    if max(rates) == 0:
        warnings.warn("the learning rate is 0 in every step: nothing is learnt", stacklevel=2)
    return schedule


def _rates(optimizer: torch.optim.Optimizer, schedule: Any, optimizer_of: object, schedule_of: object) -> Iterator[float]:
    """The largest learning rate of each step."""
    for step in range(min(schedule_length(schedule) or 100, STEPS)):
        rates = [float(group["lr"]) for group in optimizer.param_groups]
        if wrong := [rate for rate in rates if not 0 <= rate < math.inf]:
            key = "model.optimizer" if schedule is None else "model.lr_scheduler"
            raise ValueError(f"{key}: the learning rate of step {step + 1} is {wrong[0]}, and it must be a finite number of 0 or more")
        yield max(rates)
        with _refusals("model.optimizer", optimizer_of):
            _step(optimizer)
        if schedule is not None:
            with _refusals("model.lr_scheduler", schedule_of):
                schedule.step()


def _step(optimizer: torch.optim.Optimizer) -> None:
    for parameter in (p for group in optimizer.param_groups for p in group["params"]):
        parameter.grad = torch.full_like(parameter, parameter.numel() ** -0.5)
    rate = optimizer.param_groups[0]["lr"]
    optimizer.step()
    for parameter in (p for group in optimizer.param_groups for p in group["params"]):
        if not (parameter.detach() - 1).abs().max() <= FARTHEST:
            lost = f"take a weight of 1 to {float(parameter.detach().abs().max()):g}"
            raise ValueError(f"steps on gradients of norm 1, at the learning rate {float(rate):g}, {lost}")


@contextmanager
def _refusals(key: str, made_by: object) -> Iterator[None]:
    """Within, whatever a library raises is a refusal of what the config gives it."""
    try:
        yield
    except Exception as error:
        cls = getattr(made_by, "func", made_by)
        said = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(f"{key}: {getattr(cls, '__name__', cls)} cannot be used as it is configured: {said}") from error


def planned_steps(trainer: Trainer, batches: float, per_batch: int) -> float:
    """Optimizer steps of a whole run at most; infinite if only a time or a hand ends it."""
    epochs, steps = trainer.max_epochs, trainer.max_steps
    if epochs is None:
        # what Lightning makes of it once the run begins
        timed = any(isinstance(callback, Timer) for callback in callbacks_of(trainer))
        epochs = 1000 if steps < 0 and not timed else -1
    by_epochs = math.inf if epochs < 0 else epochs * batches * per_batch
    return min(by_epochs, math.inf if steps < 0 else steps)


def schedule_length(scheduler: object) -> int | None:
    """Steps after which a schedule of torch has nothing left to say; None: there is none, or it has no end."""
    return getattr(scheduler, "total_steps", None)


def check_schedule(scheduler: object, steps: float) -> None:
    """Refuse a schedule that would end, with an error, before the run does."""
    length = schedule_length(scheduler)
    if length is not None and math.isfinite(steps) and length < steps:
        raise ValueError(
            f"model.lr_scheduler.total_steps is {length}, and the run makes up to {int(steps)} optimizer steps: {type(scheduler).__name__} "
            f"would stop it there. Type: --model.lr_scheduler.total_steps {int(steps)}"
        )


def fuse(optimizer: torch.optim.Optimizer, device: torch.device) -> str | None:
    """Have Adam or AdamW make its steps in one kernel on CUDA, where its settings leave that open; gives a sentence that says so."""
    if type(optimizer) not in (torch.optim.Adam, torch.optim.AdamW):
        return None
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    fitting = device.type == "cuda" and all(parameter.is_floating_point() for parameter in parameters)
    open_to_it = all(group["fused"] is None and not (group["foreach"] or group["capturable"]) for group in optimizer.param_groups)
    if not (parameters and fitting and open_to_it):
        return None
    for group in optimizer.param_groups:
        group["fused"] = True
    return f"{type(optimizer).__name__} steps in one fused kernel; model.optimizer with fused: false takes torch's default"
