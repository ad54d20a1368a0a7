"""Worker processes as a place: they can be killed without harm to anything else, and are replaced."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from lightrl.run_end import RunEndedError
from lightrl.workers.calls import Answer, Place, Shares
from lightrl.workers.program import WorkerProgram
from lightrl.workers.worker_process import Worker, WorkerSource

LARGEST_CHUNK = 64
"""Free calls that a worker takes at a time; few enough that none waits long behind another's."""
CHUNKS = 4
"""Chunks per worker, so that no worker is idle while another has much to do."""
C = TypeVar("C")
_Tasks = queue.SimpleQueue[tuple[list[Any], Future[list[Answer]]] | None]


@dataclass(frozen=True)
class Step:
    """A call that a worker has to make."""

    call: Any
    """The call."""
    place: int | None
    """Of its answer; None: the call is repeated, and `known` was answered."""
    known: Any = None
    """The value that was answered before."""


class FreeCalls(Generic[C]):
    """Calls that any worker may make, of which nothing is remembered."""

    @staticmethod
    def home(call: C) -> int | None:
        """A number by which calls stay with one worker; None: any worker takes the call."""
        return None

    def worker_is_gone(self) -> None:
        """Everything that the worker held is lost."""

    def steps(self, calls: Sequence[C], answers: dict[int, Answer]) -> list[Step]:
        """The calls that have to be made, repeated ones among them; calls that need none are answered at once.

        Args:
            answers: by place, those that are there; more are put in.
        """
        return [Step(call, place) for place, call in enumerate(calls) if place not in answers]

    def note(self, step: Step, answer: Answer, answers: dict[int, Answer]) -> None:
        """Take the answer to a step. `answers`: by place; that of a call that was asked for is put in."""
        if step.place is not None:
            answers[step.place] = answer


class ProcessPlace(Place):
    """Makes calls in worker processes; each call has its own wall clock, and a worker that runs out of it is replaced."""

    def __init__(self, program: WorkerProgram, workers: int, timeout_s: float, calls: type[FreeCalls[Any]] = FreeCalls) -> None:
        """`calls`: whether they stay with a worker, and what is remembered of them there."""
        self._program, self._workers, self._timeout_s, self._kind = program, workers, timeout_s, calls
        self._lines: _Lines | None = None

    @property
    def started(self) -> bool:
        return self._lines is not None

    def check(self) -> None:
        try:
            self._program.setup()
        except RunEndedError as error:
            raise ValueError(str(error)) from error

    def start(self) -> None:
        self._running()

    def submit(self, calls: Sequence[Any]) -> Shares:
        lines = self._running().lines
        size = min(LARGEST_CHUNK, max(1, -(-len(calls) // (self._workers * CHUNKS))))
        shares: dict[int, list[int]] = {}
        for place, call in enumerate(calls):
            home = self._kind.home(call)
            shares.setdefault(place // size if home is None else home % self._workers, []).append(place)
        futures = [lines[share % self._workers].take([calls[place] for place in own]) for share, own in shares.items()]
        return Shares(list(shares.values()), futures)

    def finish(self, seconds: float) -> None:
        """Wait until the workers have made the calls that stay with them."""
        if self._lines is not None:
            wait([line.take([]) for line in self._lines.lines], seconds)

    def close(self) -> None:
        if self._lines is not None:
            self._lines.close()
            self._lines = None

    def _running(self) -> _Lines:
        if self._lines is None:
            self._lines = _Lines(self._program, self._workers, self._timeout_s, self._kind)
            weakref.finalize(self, self._lines.close)
        return self._lines


class _Lines:
    """A thread for each worker; they hold no reference to the place, so that it can be collected."""

    def __init__(self, program: WorkerProgram, workers: int, timeout_s: float, kind: type[FreeCalls[Any]]) -> None:
        self.source = WorkerSource(program)
        shared: _Tasks = queue.SimpleQueue()
        self.lines = [_Line(self.source, timeout_s, kind(), shared if kind is FreeCalls else queue.SimpleQueue()) for _ in range(workers)]
        for number, line in enumerate(self.lines):
            # daemons, so that an interrupted program need not wait for a worker's time to be up
            threading.Thread(target=line.serve, name=f"{program.noun} worker {number}", daemon=True).start()
            line.take([])

    def close(self) -> None:
        for line in self.lines:
            line.tasks.put(None)
        self.source.close()


class _Line:
    """The calls that wait for one worker, or for any."""

    def __init__(self, source: WorkerSource, timeout_s: float, history: FreeCalls[Any], tasks: _Tasks) -> None:
        self._source, self._timeout_s, self._history, self.tasks = source, timeout_s, history, tasks
        self._worker: Worker | None = None

    def take(self, calls: list[Any]) -> Future[list[Answer]]:
        future: Future[list[Answer]] = Future()
        self.tasks.put((calls, future))
        return future

    def serve(self) -> None:
        while (task := self.tasks.get()) is not None:
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

    def _answers(self, calls: list[Any]) -> list[Answer]:
        answers: dict[int, Answer] = {}
        while True:
            worker = self._source.ready(self._worker)
            if worker is not self._worker:
                self._worker = worker
                self._history.worker_is_gone()
            steps = self._history.steps(calls, answers)
            if not steps:
                return [answers[place] for place in range(len(calls))]
            made = worker.answers([step.call for step in steps], self._timeout_s)
            for step, answer in zip(steps, made, strict=False):
                self._history.note(step, answer, answers)
