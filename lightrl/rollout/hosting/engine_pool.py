"""The workers of one engine: all have the same weights, and one that fails is replaced."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from lightrl.parts.engine import PolicyWeights, Request, Result, SampledPolicy
from lightrl.ranks import local_rank
from lightrl.rollout.hosting.engine_host import EngineHost, FailedWorkerError
from lightrl.rollout.hosting.engine_messages import End, Outline, Update
from lightrl.rollout.hosting.policy_outline import PolicyOutline
from lightrl.rollout.hosting.slice_worker import FailedEngineError, SliceWorker
from lightrl.workers.process_ends import CLOSE_TIMEOUT_S
from lightrl.workers.worker_process import LOAD_S

log = logging.getLogger(__name__)

POLL_S = 0.5
"""Seconds between two looks at whether results are still wanted."""


class EnginePool:
    """A number of workers, from their start to their end.

    Each method raises a `RuntimeError` if an engine has raised, or more workers have failed than may be replaced.
    """

    def __init__(
        self,
        name: str,
        host: EngineHost,
        workers: int,
        timeout_s: float,
        max_replacements: int,
        threads: int | None,
        devices: Sequence[str],
    ) -> None:
        """
        Args:
            name: of the engine's class, in messages.
            timeout_s: seconds in which a worker must answer.
            threads: of each worker on the CPU; None: as many as the trainer has.
            devices: of the workers of all ranks of this machine, in turn; none: that of the trainer.
        """
        self._name, self._host, self._size, self._timeout_s, self._max_replacements = name, host, workers, timeout_s, max_replacements
        self._threads, self._devices, self._start_s = threads, devices, start_limit(timeout_s)
        self._policy: SampledPolicy | None = None
        self._outlines: list[Outline] = []
        self._workers: list[SliceWorker] = []
        self._update: Update | None = None
        self._reading, self._closed = threading.Lock(), False
        self.failures: list[str] = []
        """Why each worker that was replaced had to be."""

    def close(self) -> None:
        """End all workers and give everything back; engines have some seconds to close. A thread that waits for results gets an error."""
        self._closed = True
        if self._reading.acquire(timeout=CLOSE_TIMEOUT_S):
            self._reading.release()
        for number, worker in enumerate(self._workers):
            try:
                if worker.link.alive:
                    worker.link.send(End())
            except FailedWorkerError as failure:
                log.warning("worker %d of %s, which was to end: %s", number, self._name, failure)
        ends = time.monotonic() + CLOSE_TIMEOUT_S
        for worker in self._workers:
            worker.link.finish(max(0.0, ends - time.monotonic()))
        self._host.close()

    @property
    def loads(self) -> list[int]:
        """The slices that each worker has; none before the first weights."""
        return [worker.slices for worker in self._workers]

    def update(self, weights: PolicyWeights, version: int) -> None:
        """Have each worker take the weights from where they are copied to; a ValueError if the policy's tensors are others than before."""
        known = self._policy is weights.policy
        self._update = Update(version, self._host.publish(weights.own_tensors(trained=known), whole=not known))
        if not known:
            self._policy, self._outlines = weights.policy, self._outlines_of(weights.policy)
        new = not self._workers
        if new:
            self._workers = [self._made() for _ in range(self._size)]
        # all copy at the same time
        self._each(lambda number, worker: self._tell(number, worker, outline=new or not known))
        self._each(lambda number, worker: self._wait(number, worker, built=known and not new))

    def ask(self, number: int, requests: list[Request]) -> None:
        """Have a worker continue requests, decoded together."""
        try:
            self._workers[number].ask(requests)
        except FailedWorkerError as failure:
            self._replace(number, str(failure))

    def forget(self, episodes: frozenset[int]) -> None:
        """Drop episodes, and their requests under way."""
        self._each(lambda _, worker: worker.forget(episodes))

    def results(self) -> list[Result]:
        """Wait a moment for a worker to answer, or replace one that does not; results may be none."""
        with self._reading:
            self._check_open()
            return self._results()

    def _results(self) -> list[Result]:
        busy = [(number, worker) for number, worker in enumerate(self._workers) if worker.slices]
        left = min(worker.left_s for _, worker in busy)
        ready = self._host.ready([worker.link for _, worker in busy], max(0.0, min(left, POLL_S)))
        found: list[Result] = []
        for number, worker in busy:
            try:
                if worker.link in ready:
                    found += worker.results()
                elif worker.left_s <= 0:
                    raise worker.link.timed_out(f"gave no result for {self._timeout_s:g} s (timeout_s)")
            except FailedWorkerError as failure:
                self._replace(number, str(failure))
            except FailedEngineError as failed:
                raise self._failure(number, failed) from None
        return found

    def _outlines_of(self, policy: SampledPolicy) -> list[Outline]:
        outline = PolicyOutline.of(policy)
        devices = self._devices or [str(next(policy.model.parameters()).device)]
        threads = self._threads or outline.threads
        first = local_rank() * self._size
        return [Outline(outline, devices[(first + number) % len(devices)], threads) for number in range(self._size)]

    def _made(self) -> SliceWorker:
        return SliceWorker(self._host.start_worker(), self._timeout_s)

    def _each(self, do: Callable[[int, SliceWorker], None]) -> None:
        for number, worker in enumerate(list(self._workers)):
            try:
                do(number, worker)
            except FailedWorkerError as failure:
                self._replace(number, str(failure))

    def _tell(self, number: int, worker: SliceWorker, outline: bool) -> None:
        if outline:
            worker.link.send(self._outlines[number])
        if self._update is not None:
            worker.update(self._update)

    def _wait(self, number: int, worker: SliceWorker, built: bool) -> None:
        if not worker.updating:
            return
        # to build the model is no call
        limit_s = self._timeout_s if built else self._start_s
        if not self._host.ready([worker.link], limit_s):
            raise worker.link.timed_out(f"has not taken the weights within {limit_s:g} s")
        try:
            worker.updated()
        except FailedEngineError as failed:
            raise self._failure(number, failed) from None

    def _replace(self, number: int, why: str) -> None:
        """Put a new worker in the place of one that has failed, with the same weights and the same requests."""
        while True:
            self._check_open()
            self._count(f"worker {number} of {self._name}: {why}")
            worker = self._made()
            worker.take_over(self._workers[number])
            self._workers[number] = worker
            try:
                self._tell(number, worker, outline=True)
                self._wait(number, worker, built=False)
                worker.ask_again()
            except FailedWorkerError as failure:
                why = str(failure)
            else:
                return

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(f"the workers of {self._name} were closed")

    def _count(self, failure: str) -> None:
        if len(self.failures) == self._max_replacements:
            listed = "".join(f"\n  {reason}" for reason in [*self.failures, failure])
            raise RuntimeError(
                f"{len(self.failures) + 1} {self._host.workers} failed, and {self._max_replacements} may be replaced (max_replacements):"
                f"{listed}\n"
                "Find out what kills them (the memory of the machine?), or raise timeout_s if they are only slow"
            )
        self.failures.append(failure)
        log.warning("%s; it is replaced and asked again", failure)

    def _failure(self, number: int, failed: FailedEngineError) -> RuntimeError:
        return RuntimeError(f"{self._name} failed in {self._host.worker} {number}: {failed}")


def start_limit(timeout_s: float) -> float:
    """Seconds that a worker may take to start: more than for a result, since it loads libraries and builds the model."""
    return max(timeout_s, LOAD_S)
