"""Rewards that are called in worker processes, which can be killed without harm to anything else."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from lightrl.parts.function import Function
from lightrl.parts.reward import RowReward
from lightrl.rewards.row_call import Answer, Call, RowPerformer
from lightrl.run_end import RunEndedError
from lightrl.workers.program import WorkerProgram
from lightrl.workers.worker_process import Worker
from lightrl.workers.worker_source import WorkerSource

LARGEST_CHUNK = 64
"""Calls that a worker takes at a time; few enough that none waits long behind another's."""
CHUNKS = 4
"""Chunks per worker, so that no worker is idle while another has much to do."""


@dataclass(frozen=True)
class Chunks:
    """Answers to come, in parts."""

    futures: list[Future[list[Answer]]]
    """One per chunk, in order."""

    def result(self) -> list[Answer]:
        """Wait for all of them; an interrupt cancels the chunks that no worker has begun with."""
        try:
            return [answer for future in self.futures for answer in future.result()]
        except BaseException:
            for future in self.futures:
                future.cancel()
            raise


class WorkerPool:
    """Makes calls in `workers` processes; each row has its own wall clock, and a worker that runs out of it is replaced."""

    def __init__(self, reward: RowReward) -> None:
        """
        Args:
            reward: with its `workers`, `timeout_s` and `memory_mb`.
        """
        self._reward = reward
        self._threads: _WorkerThreads | None = None

    def check(self) -> None:
        """Refuse a reward that cannot be pickled.

        Raises:
            ValueError: says why.
        """
        try:
            _program(self._reward).setup()
        except RunEndedError as error:
            raise ValueError(str(error)) from error

    def start(self) -> None:
        """Start the processes without waiting for them."""
        self.submit([])

    def submit(self, calls: Sequence[Call]) -> Chunks:
        """Hand out the calls."""
        if self._threads is None:
            self._threads = _WorkerThreads(self._reward)
            weakref.finalize(self, self._threads.close)
        size = min(LARGEST_CHUNK, max(1, -(-len(calls) // (self._reward.workers * CHUNKS))))
        chunks = [calls[i : i + size] for i in range(0, len(calls), size)] or [[]]
        return Chunks([self._threads.take(list(chunk)) for chunk in chunks])

    def close(self) -> None:
        """End all processes."""
        if self._threads is not None:
            self._threads.close()
            self._threads = None


class _WorkerThreads:
    """Threads that each serve one worker; they hold no reference to the pool, so that it can be collected."""

    def __init__(self, reward: RowReward) -> None:
        self._reward = reward
        self._tasks: queue.SimpleQueue[tuple[list[Call], Future[list[Answer]]] | None] = queue.SimpleQueue()
        self.workers = WorkerSource(_program(reward))
        # daemons, so that an interrupted program need not wait for a worker's time to be up
        for number in range(reward.workers):
            threading.Thread(target=self._serve, name=f"reward worker {number}", daemon=True).start()

    def take(self, calls: list[Call]) -> Future[list[Answer]]:
        future: Future[list[Answer]] = Future()
        self._tasks.put((calls, future))
        return future

    def close(self) -> None:
        for _ in range(self._reward.workers):
            self._tasks.put(None)
        self.workers.close()

    def _serve(self) -> None:
        worker: Worker | None = None
        while (task := self._tasks.get()) is not None:
            calls, future = task
            if not future.set_running_or_notify_cancel():
                continue
            answers: list[Answer] = []
            try:
                while True:
                    worker = self.workers.ready(worker)
                    if len(answers) == len(calls):
                        break
                    given = worker.answers(calls[len(answers) :], self._reward.timeout_s)
                    answers += [Answer(answer.value, answer.error, answer.late) for answer in given]
            except BaseException as error:
                worker = None
                future.set_exception(error)
            else:
                future.set_result(answers)


def _program(reward: RowReward) -> WorkerProgram:
    # a plain function is named by its path, which is all that is pickled of it
    modules = [reward.path.rpartition(".")[0]] if isinstance(reward, Function) else []
    return WorkerProgram(RowPerformer(reward), reward, "reward", "set runs: inline", reward.memory_mb, modules)
