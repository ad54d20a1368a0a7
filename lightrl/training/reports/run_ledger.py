"""The numbers of a run until they are logged, with the seconds of its phases, of which callbacks are informed; and their logging."""

from __future__ import annotations

import datetime
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from lightning.pytorch import Trainer
from torch import Tensor

from lightrl.training.reports.statistics import Entry, StatisticsLedger


class PhaseObserver:
    """A callback that follows what happens within a training step: Lightning has no hook there."""

    def on_phase(self, phase: str) -> None:
        """A phase has begun, or has come so far: `optimize`, or `rollout, 3 of 8 turns`."""

    def on_wait(self) -> None:
        """The trainer waits for a rollout that is made ahead; called again and again, and may raise to end the run."""


class RunLedger(StatisticsLedger):
    """Collects the numbers of a run and the seconds of its phases, and informs observers of each phase."""

    def __init__(self, observers: Sequence[PhaseObserver] = ()) -> None:
        super().__init__()
        self.observers = observers
        self.seconds = defaultdict[str, float](float)

    def show(self, phase: str) -> None:
        """Inform the observers of a phase, without timing it."""
        for observer in self.observers:
            observer.on_phase(phase)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Inform the observers of a phase, and add its seconds to those that are logged as `perf/{name}_s`."""
        self.show(name)
        started = time.perf_counter()
        yield
        self.seconds[name] += time.perf_counter() - started

    def merge(self, other: StatisticsLedger) -> None:
        """Add everything that another ledger holds, its seconds included."""
        super().merge(other)
        for name, seconds in other.seconds.items() if isinstance(other, RunLedger) else ():
            self.seconds[name] += seconds

    def reduce(self, gather: Callable[[dict[str, Entry]], list[dict[str, Entry]]]) -> dict[str, float]:
        """Every number over all ranks, by name, seconds included; the ledger is empty afterwards."""
        for name, seconds in self.seconds.items():
            self.add(f"perf/{name}_s", seconds, reduce="max")
        self.seconds.clear()
        return super().reduce(gather)

    @classmethod
    def of_rollout(cls, numbers: Mapping[str, list[Any]], seconds: Mapping[str, float]) -> RunLedger:
        """The ledger of a rollout that a checkpoint has kept: what `state_dict` gave, and its seconds."""
        ledger = cls.from_state(numbers)
        ledger.seconds.update(seconds)
        return ledger


def log_numbers(trainer: Trainer, numbers: Mapping[str, float]) -> None:
    """Give numbers, reduced over ranks already, to every logger, and to `trainer.callback_metrics` and `trainer.logged_metrics`.

    `LightningModule.log` would make one metric object per name and average it over an epoch of one step, which takes three quarters of what
    a rollout of a small model costs beside its passes.
    """
    tensors = as_tensors(numbers)
    trainer.callback_metrics.update(tensors)
    trainer.logged_metrics.update(tensors)
    step = trainer.fit_loop.epoch_loop.batch_progress.total.ready - 1
    for logger in trainer.loggers:
        logger.log_metrics({**numbers, "epoch": float(trainer.current_epoch)}, step)
        logger.save()


def as_tensors(numbers: Mapping[str, float]) -> dict[str, Tensor]:
    """The numbers in float32 and a tensor each, as Lightning keeps what is logged; on the CPU, so that no device is waited for."""
    return dict(zip(numbers, torch.tensor(list(numbers.values()), dtype=torch.float32), strict=True))


def run_state(trainer: Trainer) -> dict[str, Any]:
    """Metrics, steps and the date, for those who read a checkpoint without the run."""
    metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
    progress: Any = trainer.fit_loop.epoch_loop.batch_progress.total
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"metrics": metrics, "steps": progress.processed, "date": now}
