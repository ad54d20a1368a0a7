"""A trial of an optimizer and its schedule on a few numbers, before anything is trained: what torch would refuse later is refused now."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from lightrl.training.setup.schedule import schedule_length

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
    """The schedule of an optimizer that has made steps on gradients of norm 1, for as long as the schedule has something to say.

    Args:
        optimizer_of: makes the optimizer of parameter groups.
        schedule_of: makes its schedule; None: there is none.
        groups: the number of parameter groups.
        device: where the parameters will be.

    Returns:
        The schedule; None if there is none.

    Raises:
        ValueError: torch refuses an argument, the learning rate of a step is no number of 0 or more, or weights are lost. The message
            begins with the key.
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
