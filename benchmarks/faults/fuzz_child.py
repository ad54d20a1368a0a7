"""One mutated config in a process of its own: `lightrl check`, then `lightrl fit` for one rollout."""

from __future__ import annotations

import io
import json
import os
import resource
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from benchmarks.faults.fuzz_mutations import Mutation

CPU_S = 60
"""Seconds of processor time after which a mutation hangs."""
MEMORY = 6 << 30
"""Bytes of memory that a mutation may have."""
LINES = 3
"""The most lines of a clear error."""
STEPS = 3
"""Training batches after which a run is long enough."""


class OneRollout(Callback):
    """Ends a run after its first epoch, or its first batches."""

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *rest: Any) -> None:
        """Ask for the end; a run that is told to make more steps is ended at once."""
        if trainer.should_stop and trainer.fit_loop.total_batch_idx > 2 * STEPS:
            sys.exit(0)
        trainer.should_stop = hasattr(pl_module, "algorithm") or trainer.fit_loop.total_batch_idx >= STEPS


@dataclass
class Outcome:
    """What a mutation led to."""

    check: str = "killed"
    """`accepted`, `refused`, `traceback`, or how its process ended."""
    fit: str = "-"
    """`ran`, `stopped` on purpose, `refused`, `traceback`, how its process ended, or `-` where it was not reached."""
    said: str = ""
    """The error, or the last lines of the traceback."""

    @property
    def finding(self) -> str:
        """What is wrong with lightrl; nothing if all is well."""
        if self.check not in ("accepted", "refused"):
            return f"check: {self.check}"
        if self.fit in ("ran", "stopped", "-"):
            return ""
        return "fit refuses what check accepts" if self.fit == "refused" else f"fit: {self.fit}"


def live(mutation: Mutation, folder: Path, loud: bool = False) -> None:
    """Try a mutation and write its outcome after every verb; never returns.

    Args:
        mutation: to be tried.
        folder: of this mutation, which is the working directory from then on.
        loud: show what the verbs print.
    """
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    os.chdir(folder)
    # torch makes the pool of a forked process anew at its first use: two threads that load weights must not be the first
    torch.set_num_threads(1)
    outcome = Outcome()
    try:
        _try(mutation, folder, outcome, loud)
    finally:
        os._exit(0)


def _try(mutation: Mutation, folder: Path, outcome: Outcome, loud: bool) -> None:
    words = ["--config", str(folder / f"{mutation.config}.yaml"), *mutation.words]
    outcome.check, outcome.said = _verb("check", words, loud)
    if outcome.check == "accepted":
        outcome.fit = "killed"
    _write(outcome, folder)
    if outcome.check == "accepted":
        ends = ["--trainer.callbacks+=benchmarks.faults.fuzz_child.OneRollout"]
        outcome.fit, outcome.said = _verb("fit", [*words, *ends], loud)
        outcome.fit = "ran" if outcome.fit == "accepted" else outcome.fit
        _write(outcome, folder)


def _verb(verb: str, words: list[str], loud: bool) -> tuple[str, str]:
    from lightrl.cli import main

    sys.argv = [str(Path(sys.executable).parent / "lightrl"), verb, *words]
    errors = io.StringIO()
    try:
        with redirect_stderr(sys.stderr if loud else errors), redirect_stdout(sys.stdout if loud else io.StringIO()):
            status = main([verb, *words])
    except BaseException as error:
        return ("stopped" if _on_purpose(error) else "traceback"), traceback.format_exc()
    said = errors.getvalue()
    if "Traceback (most recent call last)" in said:
        return "traceback", said
    # 1: it has begun, and could not go on
    return {0: "accepted", 1: "stopped"}.get(status, "refused"), said if status else ""


def _on_purpose(error: BaseException) -> bool:
    """lightrl or a plugin has stopped the training because it cannot go on: too many rows fail, or no batch can be filled."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    ours = any(part == "lightrl" or part.startswith("lightrl_") for part in Path(frame.filename).parts)
    return type(error) is RuntimeError and ours and (frame.line or "").startswith("raise")


def _write(outcome: Outcome, folder: Path) -> None:
    temporary = folder / "outcome.tmp"
    temporary.write_text(json.dumps(vars(outcome)))
    temporary.rename(folder / "outcome.json")
