"""The failure of one rank ends all of them, with a message that names the rank, the phase and the reason."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.strategies import ParallelStrategy

from lightrl.training.reports.run_ledger import PhaseObserver
from lightrl.workers.process_ends import CLOSE_TIMEOUT_S, cause_of

LOST = ("timed out", "timeout", "connection closed", "connection reset", "broken pipe")
"""Words in the errors of backends when another rank did not answer, in any case of letters."""


class StopAllRanks(Callback, PhaseObserver):
    """When a rank fails, its message is printed at once and the other processes that Lightning has started end too."""

    in_every_run = True
    _phase = "setup"

    def on_phase(self, phase: str) -> None:
        """Keep which phase the module is in."""
        self._phase = phase

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Say what happened where, before anything is torn down, and end the others."""
        if trainer.world_size == 1 or isinstance(exception, (KeyboardInterrupt, SystemExit)):
            return
        where = f"rank {trainer.global_rank}, rollout {trainer.current_epoch + 1}, phase {self._phase}"
        others = getattr(trainer.strategy.launcher, "procs", [])
        if any(word in str(exception).lower() for word in LOST):
            exception.add_note(
                f"{where}: another rank did not answer{_ended(others)}. It has failed, or takes longer than the strategy's timeout "
                f"({getattr(trainer.strategy, '_timeout', None)}): see what it has printed, or give the strategy a longer one, for example "
                "--trainer.strategy DDPStrategy --trainer.strategy.timeout 1:00:00"
            )
            sys.stderr.write(f"{where}: another rank did not answer ({str(exception).splitlines()[0]})\n")
        else:
            sys.stderr.write(f"{where} failed: {type(exception).__name__}: {exception}\n")
        sys.stderr.flush()
        _end(others)


def started_by_rank_0(trainer: Trainer) -> bool:
    """Lightning's own launcher has started this process, which takes any exit status but 0 for a failure."""
    strategy = trainer.strategy
    environment = strategy.cluster_environment if isinstance(strategy, ParallelStrategy) else None
    return trainer.local_rank > 0 and environment is not None and not environment.creates_processes_externally


def _ended(processes: list[subprocess.Popen[bytes]]) -> str:
    """How processes have ended, for each one that ends within a second: ` (local rank 1: signal 9 (SIGKILL))`."""
    time.sleep(1 if processes else 0)
    return "".join(f" (local rank {n}: {cause_of(p.returncode)})" for n, p in enumerate(processes, 1) if p.poll())


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    """Kill what is still there after a while; in the background, so that this process can end too."""
    until = time.monotonic() + CLOSE_TIMEOUT_S

    def wait_and_kill() -> None:
        for process in processes:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    if processes:
        # no daemon: the interpreter waits for it, while the connections that the others hang on are closed
        threading.Thread(target=wait_and_kill, name="end of the other ranks").start()
