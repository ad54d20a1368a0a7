"""The worker processes of one engine: all have the same weights, and one that falls is replaced."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait

from lightrl.parts.engine import PolicyWeights, Request, Result, RolloutEngine, SampledPolicy
from lightrl.rollout.engine_messages import Outline, Update
from lightrl.rollout.engine_process import EngineProcess, FailedEngineError, FallenWorkerError
from lightrl.rollout.engine_worker import EngineServant
from lightrl.rollout.policy_outline import PolicyOutline
from lightrl.rollout.shared_weights import WeightBlock
from lightrl.workers.program import WorkerProgram
from lightrl.workers.worker_process import LOAD_S, PATIENCE
from lightrl.workers.worker_source import WorkerSource

log = logging.getLogger(__name__)

MODULES = ("transformers.modeling_utils", "transformers.generation.utils", "transformers.models.auto.modeling_auto")
"""Loaded once, before the workers are made: most of the seconds that a worker would need to begin."""

LOOK_S = 0.5
"""Seconds between two looks at whether results are still wanted."""


class EnginePool:
    """A number of workers, from their start to their end."""

    def __init__(
        self, engine: RolloutEngine, workers: int, timeout_s: float, max_replacements: int, threads: int | None, devices: Sequence[str]
    ) -> None:
        """
        Args:
            engine: that each worker gets a copy of; nothing is started here.
            workers: processes.
            timeout_s: seconds in which a worker must answer.
            max_replacements: workers that may be replaced.
            threads: of each worker on the CPU; None: as many as the trainer has.
            devices: of the workers, in turn; none: that of the trainer.
        """
        self._name, self._workers, self._timeout_s, self._max_replacements = type(engine).__name__, workers, timeout_s, max_replacements
        self._threads, self._devices, self._start_s = threads, devices, max(timeout_s, LOAD_S)
        inline = "name it as model.engine itself"
        self._source = WorkerSource(WorkerProgram(EngineServant(engine), engine, "engine", inline, 0, MODULES, self._start_s))
        self._block: WeightBlock | None = None
        self._policy: SampledPolicy | None = None
        self._outlines: list[Outline] = []
        self._processes: list[EngineProcess] = []
        self._update = Update(0, frozenset())
        self._reading, self._closed = threading.Lock(), False
        self.fallen: list[str] = []
        """Why each worker that was replaced had to be."""

    def start(self) -> None:
        """Start the process that the workers are made of, and do not wait for it.

        Raises:
            RuntimeError: the engine cannot be pickled.
        """
        self._source.start()

    def close(self) -> None:
        """End all processes and give the memory back; engines have some seconds to close. A thread that waits for results gets an error."""
        self._closed = True
        if self._reading.acquire(timeout=PATIENCE):
            self._reading.release()
        for number, process in enumerate(self._processes):
            try:
                if process.alive:
                    process.leave()
            except FallenWorkerError as fallen:
                log.warning("worker %d of %s, which was to end: %s", number, self._name, fallen)
        ends = time.monotonic() + PATIENCE
        for process in self._processes:
            process.end(max(0.0, ends - time.monotonic()))
        self._source.close()
        if self._block is not None:
            self._block.close()

    @property
    def loads(self) -> list[int]:
        """The slices that each worker has; none before the first weights."""
        return [process.slices for process in self._processes]

    def update(self, weights: PolicyWeights, version: int) -> None:
        """Copy the weights into memory that the workers see, and have each take them from there.

        Raises:
            RuntimeError: an engine has raised, or more workers fell than may be replaced.
            ValueError: the policy's tensors are others than before.
        """
        if self._policy is not weights.policy and self._block is not None:
            self._block.close()
            self._block = None
        known = self._block is not None
        block = self._block = self._block or WeightBlock()
        self._update = Update(version, block.write(weights.own_tensors(trained=known)))
        if not known:
            self._policy, self._outlines = weights.policy, self._outlines_of(weights.policy, block)
        new = not self._processes
        if new:
            self._processes = [self._made() for _ in range(self._workers)]
        # all copy at the same time
        self._each(lambda number, process: self._tell(number, process, outline=new or not known))
        self._each(lambda number, process: self._wait(number, process, built=known and not new))

    def ask(self, number: int, requests: list[Request]) -> None:
        """Have a worker continue requests, decoded together.

        Raises:
            RuntimeError: more workers fell than may be replaced.
        """
        try:
            self._processes[number].ask(requests)
        except FallenWorkerError as fallen:
            self._replace(number, str(fallen))

    def forget(self, episodes: frozenset[int]) -> None:
        """Drop episodes, and their requests under way.

        Raises:
            RuntimeError: more workers fell than may be replaced.
        """
        self._each(lambda _, process: process.forget(episodes))

    def results(self) -> list[Result]:
        """Wait a moment for a worker to answer, or replace one that does not; results may be none.

        Raises:
            RuntimeError: an engine has raised, or more workers fell than may be replaced.
        """
        with self._reading:
            self._refuse_closed()
            return self._results()

    def _results(self) -> list[Result]:
        busy = [(number, process) for number, process in enumerate(self._processes) if process.slices]
        left = min(process.left_s for _, process in busy)
        ready = wait([process.connection for _, process in busy], max(0.0, min(left, LOOK_S)))
        found: list[Result] = []
        for number, process in busy:
            try:
                if process.connection in ready:
                    found += process.results()
                elif process.left_s <= 0:
                    raise process.late(f"gave no result for {self._timeout_s:g} s (timeout_s)")
            except FallenWorkerError as fallen:
                self._replace(number, str(fallen))
            except FailedEngineError as failed:
                raise self._failure(number, failed) from None
        return found

    def _outlines_of(self, policy: SampledPolicy, block: WeightBlock) -> list[Outline]:
        outline = PolicyOutline.of(policy)
        devices = self._devices or [str(next(policy.model.parameters()).device)]
        threads = self._threads or outline.threads
        return [Outline(outline, block.places, devices[number % len(devices)], threads) for number in range(self._workers)]

    def _made(self) -> EngineProcess:
        return EngineProcess(self._source.ready(None), self._timeout_s)

    def _each(self, do: Callable[[int, EngineProcess], None]) -> None:
        for number, process in enumerate(list(self._processes)):
            try:
                do(number, process)
            except FallenWorkerError as fallen:
                self._replace(number, str(fallen))

    def _tell(self, number: int, process: EngineProcess, outline: bool) -> None:
        if outline and self._block is not None:
            process.outline(self._outlines[number], self._block.descriptor)
        process.update(self._update)

    def _wait(self, number: int, process: EngineProcess, built: bool) -> None:
        try:
            # to build the model is no call
            process.updated(self._timeout_s if built else self._start_s)
        except FailedEngineError as failed:
            raise self._failure(number, failed) from None

    def _replace(self, number: int, why: str) -> None:
        """Put a new worker in the place of one that has fallen, with the same weights and the same requests."""
        while True:
            self._refuse_closed()
            self._count(f"worker {number} of {self._name}: {why}")
            process = self._made()
            process.inherit(self._processes[number])
            self._processes[number] = process
            try:
                self._tell(number, process, outline=True)
                self._wait(number, process, built=False)
                process.ask_again()
            except FallenWorkerError as fallen:
                why = str(fallen)
            else:
                return

    def _refuse_closed(self) -> None:
        if self._closed:
            raise RuntimeError(f"the workers of {self._name} were closed")

    def _count(self, fallen: str) -> None:
        if len(self.fallen) == self._max_replacements:
            listed = "".join(f"\n  {reason}" for reason in [*self.fallen, fallen])
            raise RuntimeError(
                f"{len(self.fallen) + 1} worker processes fell, and {self._max_replacements} may be replaced (max_replacements):{listed}\n"
                "Find out what kills them (the memory of the machine?), or raise timeout_s if they are only slow"
            )
        self.fallen.append(fallen)
        log.warning("%s; it is replaced and asked again", fallen)

    def _failure(self, number: int, failed: FailedEngineError) -> RuntimeError:
        return RuntimeError(f"{self._name} failed in worker process {number}: {failed}")
