"""The numbers of a run until they are logged, with the seconds of its phases, of which callbacks are informed; and their logging."""

from __future__ import annotations

import datetime
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn

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


def place_in_log(trainer: Trainer) -> int:
    """The rollout (or step, of a run without rollouts) that is made or was made last, from 1; 0 before the first: the x-axis of loggers."""
    return int(trainer.fit_loop.epoch_loop.batch_progress.total.ready)


def log_numbers(trainer: Trainer, numbers: Mapping[str, float], every: int = 1) -> None:
    """Give numbers, reduced over ranks already, to every logger, and to `trainer.callback_metrics` and `trainer.logged_metrics`.

    `LightningModule.log` would make one metric object per name and average it over an epoch of one step, three quarters of what a rollout
    of a small model costs beside its passes; and it counts from 0, where an evaluation before training is.

    Args:
        trainer: of the run.
        numbers: by name.
        every: loggers are given the first of so many steps; 0: none.
    """
    # Lightning keeps tensors; on the CPU no device is waited for
    tensors = dict(zip(numbers, torch.tensor(list(numbers.values()), dtype=torch.float32), strict=True))
    trainer.callback_metrics.update(tensors)
    trainer.logged_metrics.update(tensors)
    step = place_in_log(trainer)
    for logger in trainer.loggers if every and (step - 1) % every == 0 else []:
        logger.log_metrics({**numbers, "epoch": float(trainer.current_epoch)}, step)
        logger.save()


def log_evaluation(module: LightningModule, numbers: Mapping[str, float]) -> None:
    """Log what an evaluation found, as `val/...`, or `test/...` in a test."""
    stage, learns = "test" if module.trainer.testing else "val", module.trainer.state.fn == TrainerFn.FITTING
    named = {f"{stage}/{name}": value for name, value in numbers.items()}
    module.log_dict(named, batch_size=1, logger=False if learns else None)
    if learns and not module.trainer.sanity_checking:
        log_numbers(module.trainer, named)


def run_state(trainer: Trainer) -> dict[str, Any]:
    """Metrics, steps and the date, for those who read a checkpoint without the run."""
    metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
    progress: Any = trainer.fit_loop.epoch_loop.batch_progress.total
    return {"metrics": metrics, "steps": progress.processed, "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")}
