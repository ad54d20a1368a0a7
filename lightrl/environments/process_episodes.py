"""Episodes in worker processes, which can be killed without harm to any other episode."""

from __future__ import annotations

import logging
import queue
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from lightrl.environments.calls import Call, End
from lightrl.environments.episodes import Episodes
from lightrl.environments.history import History
from lightrl.parts.environment import Environment
from lightrl.workers.calls import Answer
from lightrl.workers.program import WorkerProgram
from lightrl.workers.worker_process import Worker
from lightrl.workers.worker_source import WorkerSource

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Shares:
    """Answers to come from several workers."""

    places: list[list[int]]
    """Per worker, the places of its answers among all."""
    futures: list[Future[list[Answer]]]
    """Per worker, its answers."""

    def result(self) -> list[Answer]:
        """Wait for all of them; an interrupt cancels what no worker has begun with."""
        answers: dict[int, Answer] = {}
        try:
            for places, future in zip(self.places, self.futures, strict=True):
                answers |= zip(places, future.result(), strict=True)
        except BaseException:
            for future in self.futures:
                future.cancel()
            raise
        return [answers[place] for place in range(len(answers))]


class ProcessEpisodes:
    """Makes calls in `workers` processes; an episode stays with worker `episode % workers`."""

    def __init__(self, environment: Environment) -> None:
        """
        Args:
            environment: with its `workers`, `timeout_s` and `memory_mb`.
        """
        self._environment = environment
        self._threads: _WorkerThreads | None = None

    def start(self) -> None:
        """Start the processes without waiting for them."""
        self._started()

    def submit(self, calls: Sequence[Call]) -> Shares:
        """Hand out the calls, at most one of each episode."""
        lines = self._started().lines
        places: list[list[int]] = [[] for _ in lines]
        for place, call in enumerate(calls):
            places[call.episode % len(lines)].append(place)
        return Shares(places, [line.take([calls[place] for place in own]) for line, own in zip(lines, places, strict=True)])

    def end(self, episodes: Sequence[int]) -> list[Answer]:
        """Drop episodes, without waiting for it."""
        if self._threads is not None:
            for future in self.submit([End(episode) for episode in episodes]).futures:
                future.add_done_callback(_log_failures)
        return []

    def close(self) -> None:
        """End all processes."""
        if self._threads is not None:
            self._threads.close()
            self._threads = None

    def _started(self) -> _WorkerThreads:
        if self._threads is None:
            self._threads = _WorkerThreads(self._environment)
            weakref.finalize(self, self._threads.close)
        return self._threads


class _WorkerThreads:
    """A thread for each worker; they hold no reference to what hands out the calls, so that it can be collected."""

    def __init__(self, environment: Environment) -> None:
        inline = 'set runs = "inline" in the class'
        program = WorkerProgram(Episodes(environment), environment, "environment", inline, environment.memory_mb)
        self._source = WorkerSource(program)
        self.lines = [_Line(self._source, environment.timeout_s, number) for number in range(environment.workers)]

    def close(self) -> None:
        for line in self.lines:
            line.close()
        self._source.close()


class _Line:
    """The calls that wait for one worker."""

    def __init__(self, source: WorkerSource, timeout_s: float, number: int) -> None:
        self._source, self._timeout_s = source, timeout_s
        self._tasks: queue.SimpleQueue[tuple[list[Call], Future[list[Answer]]] | None] = queue.SimpleQueue()
        self._history, self._worker = History(), None
        # daemons, so that an interrupted program need not wait for a worker's time to be up
        threading.Thread(target=self._serve, name=f"environment worker {number}", daemon=True).start()
        self.take([])

    def take(self, calls: list[Call]) -> Future[list[Answer]]:
        future: Future[list[Answer]] = Future()
        self._tasks.put((calls, future))
        return future

    def close(self) -> None:
        self._tasks.put(None)

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            calls, future = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                answers = self._answers(calls)
            except BaseException as error:
                self._worker = None
                future.set_exception(error)
            else:
                future.set_result(answers)

    _worker: Worker | None

    def _answers(self, calls: list[Call]) -> list[Answer]:
        answers: dict[int, Answer] = {}
        while True:
            worker = self._source.ready(self._worker)
            if worker is not self._worker:
                self._worker = worker
                self._history.place_is_gone()
            steps = self._history.steps(calls, answers)
            if not steps:
                return [answers[place] for place in range(len(calls))]
            given = worker.answers([step.call for step in steps], self._timeout_s)
            for step, answer in zip(steps, given, strict=False):
                self._history.note(step, answer, answers)


def _log_failures(future: Future[list[Answer]]) -> None:
    failures = [] if future.cancelled() or future.exception() else [a.error for a in future.result() if a.error is not None]
    if failures:
        log.warning("end() of an environment failed in %d episodes; first: %s", len(failures), failures[0])
