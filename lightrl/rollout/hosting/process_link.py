"""The training process's way to an engine in a process of this machine."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import struct
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import send_handle

from lightrl.rollout.hosting.engine_messages import Outline
from lightrl.rollout.hosting.shared_weights import WeightBlock
from lightrl.rollout.hosting.worker_link import FallenWorkerError, WorkerLink
from lightrl.workers.process_ends import cause_of
from lightrl.workers.worker_process import READ, Worker


class ProcessLink(WorkerLink):
    """Messages through a socket; the block with the weights follows the outline of the policy."""

    def __init__(self, worker: Worker, timeout_s: float, block: Callable[[], WeightBlock]) -> None:
        """
        Args:
            worker: that has just been forked.
            timeout_s: seconds in which it must take each message.
            block: gives the present block of the weights.
        """
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
            raise FallenWorkerError(f"{self.name} has ended")
        try:
            self.connection.send(message)
            if isinstance(message, Outline):
                block = self._block()
                self.connection.send(block.places)
                send_handle(self.connection, block.descriptor, self._worker.pid)
        except BlockingIOError:
            raise self.late(f"has taken no message for {self._timeout_s:g} s") from None
        except OSError:
            # it has ended, and may have said why before: that is read first
            return

    def receive(self) -> object:
        try:
            message: object = self.connection.recv()
        except BlockingIOError:
            raise self.late(f"stopped in the middle of an answer for {self._timeout_s:g} s") from None
        except (EOFError, OSError):
            raise self._died() from None
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

    def _died(self) -> FallenWorkerError:
        return FallenWorkerError(f"{self.name} died: {cause_of(self._worker.end())}")
