"""The checks of their contracts that the parts of a run do not keep, said once at its start."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from lightning.pytorch import Callback, LightningModule, Trainer

from lightrl.algorithms.algorithm import Algorithm
from lightrl.parts.base import Part

if TYPE_CHECKING:
    from lightrl.training.evaluating.collector import Collector


class StatedExceptions(Callback):
    """Prints a line for each exception from its contract that a class of the run states."""

    in_every_run = True

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print them on the first rank."""
        if trainer.is_global_zero:
            sys.stderr.writelines(f"{line}\n" for line in exceptions_of(pl_module))


def exceptions_of(module: LightningModule) -> list[str]:
    """A line for each exception from its contract that a class among the parts of a module states.

    Args:
        module: any of the modules of lightrl.
    """
    named: dict[str, object] = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    collector: Collector | None = getattr(module, "collector", None)
    if collector is not None:
        rewards = {} if collector.rewards is None else collector.rewards.rewards
        named = {"engine": collector.engine, "environment": collector.environment, "policy": collector.learner.source, **named}
        named["rewards"] = rewards
    classes = dict.fromkeys(type(part) for part in _parts(list(named.values())))
    return [
        f"{cls.__name__} does not keep a check of its contract, '{title}': {reason}"
        for cls in classes
        if issubclass(cls, Part)
        for title, reason in cls.exceptions.items()
    ]


def _parts(value: object) -> Iterator[object]:
    if isinstance(value, (Part, Algorithm)):
        yield value
        yield from _parts(list(vars(value).values()))
    elif isinstance(value, Mapping):
        yield from _parts(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for member in value:
            yield from _parts(member)
