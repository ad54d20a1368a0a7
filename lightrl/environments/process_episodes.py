"""Episodes in worker processes, which can be killed without harm to any other episode."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import Future, wait

from lightrl.environments.calls import Call, End
from lightrl.environments.episodes import Episodes
from lightrl.environments.history import History
from lightrl.environments.pending import Done, Pending, Shares, log_failed_ends_later
from lightrl.parts.environment import Environment
from lightrl.workers.calls import Answer
from lightrl.workers.program import WorkerProgram
from lightrl.workers.worker_process import Worker
from lightrl.workers.worker_source import WorkerSource

CLOSE_TIMEOUT_S = 5.0
"""Seconds in which the episodes that are still open may end when the run does."""


class ProcessEpisodes:
    """Makes calls in `workers` processes; an episode stays with worker `episode % workers`."""

    def __init__(self, environment: Environment) -> None:
        """
        Args:
            environment: with its `workers`, `timeout_s` and `memory_mb`.
        """
        self._environment = environment
        self._threads: _WorkerThreads | None = None
        self._open: set[int] = set()

    def start(self) -> None:
        """Start the processes without waiting for them."""
        self._started()

    def submit(self, calls: Sequence[Call]) -> Shares:
        """Hand out the calls, at most one of each episode."""
        lines = self._started().lines
        self._open.update(call.episode for call in calls)
        places: dict[int, list[int]] = {}
        for place, call in enumerate(calls):
            places.setdefault(call.episode % len(lines), []).append(place)
        return Shares(list(places.values()), [lines[number].take([calls[place] for place in own]) for number, own in places.items()])

    def end(self, episodes: Sequence[int]) -> Pending:
        """Drop episodes, without waiting for it."""
        if self._threads is None:
            return Done([Answer() for _ in episodes])
        ends = self.submit([End(episode) for episode in episodes])
        self._open.difference_update(episodes)
        for future in ends.futures:
            future.add_done_callback(log_failed_ends_later)
        return ends

    def close(self) -> None:
        """End all processes; environments that give something back have `CLOSE_TIMEOUT_S` seconds for it."""
        if self._threads is not None:
            if type(self._environment).end is not Environment.end:
                # those that nothing is left to do for have ends before them in the queue
                self.end(sorted(self._open))
                wait([line.take([]) for line in self._threads.lines], CLOSE_TIMEOUT_S)
            self._threads.close()
            self._threads = None
            self._open.clear()

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
        self._history = History()
        self._worker: Worker | None = None
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
