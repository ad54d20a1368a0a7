"""The callback by which `make bench` meters runs of lightrl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer

from benchmarks.speed.bench_cases import SORT6
from benchmarks.speed.bench_meter import Meter, cpu_of_all
from lightrl.training.offline.supervised import SupervisedFineTuning


class Watch(Callback):
    """Meters each step of a run."""

    def __init__(self, file: str, meter: Meter | None = None) -> None:
        """
        Args:
            file: receives the numbers.
            meter: takes them; by default that of processor time.
        """
        self.file, self.meter, self.first = Path(file), meter or Meter(), 0.0

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Watch the phases."""
        if hasattr(pl_module, "advantage_phase"):
            for name in ("submit", "results"):
                self.meter.watch(pl_module.collector.engine, name, "generate")
            self._note_first(pl_module)
        elif isinstance(pl_module, SupervisedFineTuning):
            self._count_tokens(pl_module)
        else:
            self._count_pairs(pl_module)
        self.meter.watch(pl_module.policy, "forward", "forward")
        self.meter.watch(pl_module, "manual_backward", "backward")
        self.meter.watch(torch.optim.AdamW, "step", "optimizer")

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *_: object) -> None:
        """A training step has ended."""
        if (experience := getattr(pl_module, "experience", None)) is not None:
            self.meter.tokens += float(experience.response_lengths.sum())
        self.meter.step(**({"first_rollout_s": self.first} if not self.meter.steps else {}))

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Write what was found."""
        self.meter.write(self.file)

    def _note_first(self, pl_module: Any) -> None:
        inner = pl_module.advantage_phase

        def scored(rollout: Any) -> Any:
            self.first = self.first or cpu_of_all()
            return inner(rollout)

        pl_module.advantage_phase = scored

    def _count_pairs(self, pl_module: Any) -> None:
        inner = pl_module.learn

        def counted(prompts: list[Any]) -> Any:
            self.meter.tokens += len(prompts)
            return inner(prompts)

        pl_module.learn = counted

    def _count_tokens(self, pl_module: Any) -> None:
        inner = pl_module.learner.step_on

        def counted(rows: Any, loss_of: Any) -> Any:
            self.meter.tokens += float(rows.sequences().lengths.sum())
            return inner(rows, loss_of)

        pl_module.learner.step_on = counted


class UntilSorted(Watch):
    """Ends the run when the mean reward of the last rollouts is high enough; the processor time is that of the training loop."""

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self.rewards = list[float]()

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        super().on_train_start(trainer, pl_module)
        self.meter.step()
        self.meter.steps.clear()

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *_: object) -> None:
        self.rewards.append(pl_module.numbers["reward"])
        self.meter.step(reward=self.rewards[-1])
        last = self.rewards[-int(SORT6["over"]) :]
        trainer.should_stop = len(last) == SORT6["over"] and sum(last) / len(last) >= SORT6["reward"]
