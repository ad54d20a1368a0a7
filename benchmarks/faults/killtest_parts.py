"""Parts of the runs of killtest.py: a reward that varies, a witness, and a callback that ends the run at a chosen event."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from lightrl_workshop import InPlace

from lightrl import Environment, Experience, Prompt, Reply, Result, own_opening
from lightrl.parts.environment import Said
from lightrl.training.reports.run_ledger import PhaseObserver
from lightrl.types import TrainingBatch

OF_THE_MACHINE = ("perf/", "seconds")
"""Beginnings and ends of the names of numbers that depend on the machine."""


class InPlaceAndDigits(InPlace):
    """The share of the answer's characters that stand where they should, and a little for every digit."""

    def score(self, prompt: Prompt, completion: str, **columns: object) -> float:
        return super().score(prompt, completion, **columns) + sum(c.isdigit() for c in completion) / 16


class Chance(Environment):
    """Answers by chance, as the seed of the episode decides, and rewards the digits of a turn."""

    gives_rewards = True

    def begin(self, prompt: Prompt, seed: int) -> Said:
        return own_opening(prompt)

    def reply(self, completion: str) -> Reply:
        digits = sum(c.isdigit() for c in completion) / max(1, len(completion))
        return Reply(f"{random.randrange(100)}=", reward=digits * random.random(), done=random.random() < 0.2)


class Witness(Callback):
    """Writes down every finished rollout of this attempt, and the final weights."""

    def __init__(self) -> None:
        self.folder, self.attempt = Path(os.environ["KILLTEST_FOLDER"]), os.environ["KILLTEST_ATTEMPT"]

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        finish = pl_module.finish

        def finish_and_note(batch: TrainingBatch, seconds: float) -> None:
            finish(batch, seconds)
            self.note(trainer, batch, pl_module.numbers)

        pl_module.finish = finish_and_note

    def note(self, trainer: Trainer, rows: Experience, numbers: dict[str, float]) -> None:
        seen = {
            "rollout": trainer.current_epoch,
            "prompts": [p.id for p in rows.prompts],
            "completions": list(rows.completions),
            "rewards": [x.hex() for x in rows.rewards.tolist()],
            **{n: float(v).hex() for n, v in numbers.items() if not (n.startswith(OF_THE_MACHINE) or n.endswith(OF_THE_MACHINE))},
        }
        with (self.folder / f"{self.attempt}.rank{trainer.global_rank}.jsonl").open("a") as file:
            file.write(json.dumps(seen) + "\n")

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        with pl_module.learner.adapter.gathered_weights():
            weights = {name: p.detach().clone() for name, p in pl_module.named_parameters()}
        if trainer.is_global_zero:
            torch.save(weights, self.folder / f"{self.attempt}.pt")


class Fate(Callback, PhaseObserver):
    """Ends every process of this run in the middle of something, as `KILLTEST_KILL` says; empty: never.

    `token`: before a forward pass of the rollout, or after results of an engine elsewhere; `minibatch`: after an optimizer step that is
    not the rollout's last; `between`: after a rollout; `file`: as a checkpoint's file is opened, renamed or removed; `byte`: when so many
    bytes of a file are written.
    """

    def __init__(self) -> None:
        said = json.loads(os.environ.get("KILLTEST_KILL", "{}"))
        self.kind, self.rollouts, self.event = said.get("kind"), said.get("rollouts", 0), said.get("event", 0)
        self.done = self.events = self.saves = 0
        self.phase = ""

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        step_on = pl_module.learner.step_on

        def then(*arguments: Any) -> Any:
            made = step_on(*arguments)
            self._happened("minibatch")
            return made

        pl_module.learner.step_on = then
        # every decode step looks its tokens up through this module, also one that leaves the model's own forward out
        embedding = pl_module.policy.model.get_input_embeddings()
        embedding.register_forward_pre_hook(lambda *_: self._happened("token") if self.phase.startswith("rollout") else None)
        if not pl_module.collector.engine.in_process:
            pl_module.collector.engine.results = self._counted(pl_module.collector.engine.results)

    def on_phase(self, phase: str) -> None:
        self.phase = phase

    def _counted(self, results: Callable[[], list[Result]]) -> Callable[[], list[Result]]:
        def then() -> list[Result]:
            found = results()
            self._happened("token")
            return found

        return then

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        self.done, self.events = self.done + 1, 0

    def on_train_epoch_start(self, trainer: Trainer, pl_module: Any) -> None:
        self._happened("between")

    def on_save_checkpoint(self, trainer: Trainer, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        self.saves += 1
        if self.saves < self.rollouts:
            return
        if self.kind == "byte":
            # the kernel ends a process that writes on, whatever it writes with
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.event, self.event))
        if self.kind == "file":
            sys.addaudithook(self._file)

    def _file(self, event: str, arguments: tuple[Any, ...]) -> None:
        touched = event in ("os.rename", "os.remove", "os.symlink", "os.rmdir", "shutil.rmtree", "open")
        reading = event == "open" and not ((arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR))
        if touched and not reading and any("checkpoints" in str(argument) for argument in arguments[:2]):
            self.events += 1
            if self.events >= self.event:
                os.kill(os.getpid(), signal.SIGKILL)

    def _happened(self, kind: str) -> None:
        if kind == self.kind and self.done >= self.rollouts:
            self.events += 1
            if self.events >= self.event:
                os.kill(os.getpid(), signal.SIGKILL)
