"""An engine in processes of this machine, with weights in memory that all of them see."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import struct
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import recv_handle, send_handle
from typing import Annotated

from annotated_types import Ge, Le
from torch import Tensor

from lightrl.parts.engine import RolloutEngine
from lightrl.ranges import Natural, Positive, Workers
from lightrl.rollout.hosting.engine_host import EngineHost, FailedWorkerError, WorkerLink
from lightrl.rollout.hosting.engine_messages import Outline, Update
from lightrl.rollout.hosting.engine_worker import serve_engine
from lightrl.rollout.hosting.hosted_engine import HostedEngine
from lightrl.rollout.hosting.weight_bytes import MappedWeights, SharedWeights, WeightBlock
from lightrl.workers.process_ends import cause_of
from lightrl.workers.program import WorkerProgram
from lightrl.workers.worker_process import READ, Worker, WorkerSource

MODULES = ("transformers.modeling_utils", "transformers.generation.utils", "transformers.models.auto.modeling_auto")
"""Loaded once, before the workers are made: most of the seconds that a worker would need to begin."""


class ProcessHost(EngineHost):
    """Workers that are forked from one process, which has loaded what they need."""

    worker, workers = "worker process", "worker processes"

    def __init__(self, engine: RolloutEngine, timeout_s: float, load_s: float) -> None:
        """
        Args:
            timeout_s: seconds in which a worker must take each message.
            load_s: seconds that loading the engine may take.
        """
        inline = "name it as model.engine itself"
        self._source = WorkerSource(WorkerProgram(EngineServant(engine), engine, "engine", inline, 0, MODULES, load_s))
        self._timeout_s = timeout_s
        self._block: WeightBlock | None = None

    def start(self) -> None:
        """Start the process that the workers are made of, and do not wait for it; a RuntimeError if the engine cannot be pickled."""
        self._source.start()

    def close(self) -> None:
        self._source.close()
        if self._block is not None:
            self._block.close()
            self._block = None

    def start_worker(self) -> WorkerLink:
        return ProcessLink(self._source.ready(None), self._timeout_s, self._present)

    def publish(self, tensors: Iterable[tuple[str, Tensor]], whole: bool) -> SharedWeights:
        """Copy weights into a block of memory; workers map it once."""
        if whole:
            if self._block is not None:
                self._block.close()
            self._block = WeightBlock()
        return SharedWeights(self._present().write(tensors))

    def ready(self, links: Sequence[WorkerLink], seconds: float) -> Collection[WorkerLink]:
        own = [link for link in links if isinstance(link, ProcessLink)]
        ready = set(wait([link.connection for link in own], max(0.0, seconds)))
        return [link for link in own if link.connection in ready]

    def _present(self) -> WeightBlock:
        if self._block is None:
            raise RuntimeError("a worker process got a policy before there were weights")
        return self._block


class ProcessLink(WorkerLink):
    """Messages through a socket; the block with the weights follows the outline of the policy."""

    def __init__(self, worker: Worker, timeout_s: float, block: Callable[[], WeightBlock]) -> None:
        """`timeout_s`: seconds in which it must take each message."""
        self._worker, self._timeout_s, self._block = worker, timeout_s, block
        self.name = f"process {worker.pid}"
        seconds, rest = divmod(timeout_s, 1)
        for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            # a process that stands still in the middle of a message is not waited for
            worker.channel.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", int(seconds), math.ceil(rest * 1e6)))

    @property
    def alive(self) -> bool:
        return self._worker.alive

    @property
    def connection(self) -> Connection:
        """To wait for."""
        return self._worker.calls

    def send(self, message: object) -> None:
        if not self.alive:
            raise FailedWorkerError(f"{self.name} has ended")
        try:
            self.connection.send(message)
            if isinstance(message, Outline):
                block = self._block()
                self.connection.send(block.places)
                send_handle(self.connection, block.descriptor, self._worker.pid)
        except BlockingIOError:
            raise self.timed_out(f"has taken no message for {self._timeout_s:g} s") from None
        except OSError:
            # it has ended, and may have said why before: that is read first
            return

    def receive(self) -> object:
        try:
            message: object = self.connection.recv()
        except BlockingIOError:
            raise self.timed_out(f"stopped in the middle of an answer for {self._timeout_s:g} s") from None
        except (EOFError, OSError):
            raise FailedWorkerError(f"{self.name} died: {cause_of(self._worker.end())}") from None
        return message

    def end(self) -> str:
        status = self._worker.end()
        return "" if status in (None, -signal.SIGKILL) else cause_of(status)

    def finish(self, patience_s: float) -> None:
        if not self.alive:
            return
        ends = time.monotonic() + patience_s
        # what it still says is not read: an interrupt may have left half a message there
        with contextlib.suppress(OSError):
            while wait([self.connection], max(0.0, ends - time.monotonic())) and os.read(self.connection.fileno(), READ):
                continue
        self._worker.end()


@dataclass(frozen=True)
class EngineServant:
    """Serves an engine to the training process; see `lightrl.workers.calls.Servant`."""

    engine: RolloutEngine

    def serve(self, connection: Connection) -> None:
        """Start the engine, obey messages until the last one, and close it."""
        serve_engine(self.engine, PipeConnection(connection))


class PipeConnection:
    """Messages through a socket; see `lightrl.EngineConnection`. The descriptor of the weights' block follows an outline."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._block: MappedWeights | None = None

    def send(self, message: object) -> None:
        self._connection.send(message)

    def receive(self) -> object:
        message: object = self._connection.recv()
        if isinstance(message, Outline):
            places = self._connection.recv()
            self._block = MappedWeights(recv_handle(self._connection), places)
        elif isinstance(message, Update) and isinstance(message.weights, SharedWeights):
            return replace(message, weights=replace(message.weights, block=self._block))
        return message


class ProcessEngine(HostedEngine):
    """Hosts any engine in worker processes on this machine, each with a model of its own.

    Requests are cut into slices of at most `slice_rows` of the engine, and each slice is decoded by one worker. Which requests share a
    slice depends on nothing but the requests, so `TransformersEngine` gives the same tokens for any number of workers, and the same as
    without any. A worker that dies or hangs is replaced and asked again.
    """

    def __init__(
        self,
        engine: RolloutEngine,
        workers: Workers = 1,
        timeout_s: Positive = 600.0,
        max_replacements: Natural = 10,
        threads: Annotated[int, Ge(1), Le(4096)] | None = None,
        devices: list[str] | None = None,
    ) -> None:
        """
        Args:
            engine: that each worker has a copy of; with several workers it needs `slice_rows`.
            workers: processes, on every rank.
            timeout_s: seconds in which a worker must take new weights, and give the next result. It has as long to start, and 300 at
                least.
            max_replacements: workers that may be replaced; when one more fails, the run ends.
            threads: of each worker on the CPU; null: as many as the trainer has, so that numbers are rounded as there.
            devices: of the workers, in turn, such as `cuda:1`: those of the first rank of a machine, then those of the next one; null: that
                of the rank.

        Raises:
            ValueError: an argument outside its range, or one that leaves workers without work.
        """
        super().__init__(engine, workers, timeout_s, max_replacements, threads, devices or [])
        self.workers, self.devices = workers, list(devices or [])

    def host(self, start_s: float) -> EngineHost:
        return ProcessHost(self.engine, self.timeout_s, start_s)
