"""The training process's end of one engine in a worker process."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import send_handle

from lightrl.parts.engine import Request, Result
from lightrl.rollout.engine_messages import Ask, End, Failed, Forget, Found, FromWorker, Outline, ToWorker, Update, Updated
from lightrl.workers.worker_process import READ, Worker, cause_of

NUMBERS = count()
"""Of all requests that are sent to workers."""


class FallenWorkerError(Exception):
    """A worker process has died, or did not answer in time."""


class FailedEngineError(Exception):
    """The engine in a worker process has raised."""


@dataclass
class _Asked:
    """A slice that a process works on."""

    requests: list[Request]
    """As they were sent."""
    wanted: dict[int, int]
    """Those without a result: the number that was sent, and that of the request."""

    def without(self, episodes: frozenset[int]) -> _Asked:
        """What is left when episodes are dropped."""
        left = [request for request in self.requests if request.episode not in episodes]
        return _Asked(left, {request.id: self.wanted[request.id] for request in left if request.id in self.wanted})


class EngineProcess:
    """A worker process with an engine: takes slices, and gives results within a time limit."""

    def __init__(self, worker: Worker, timeout_s: float) -> None:
        """
        Args:
            worker: that has just been forked.
            timeout_s: seconds in which it must take each message and give the next result.
        """
        self._worker, self.timeout_s = worker, timeout_s
        seconds, rest = divmod(timeout_s, 1)
        for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            # a process that stands still in the middle of a message is not waited for
            worker.channel.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", int(seconds), math.ceil(rest * 1e6)))
        self._asked: list[_Asked] = []
        self._updating = False
        self._since = time.monotonic()

    @property
    def connection(self) -> Connection:
        """To wait for."""
        return self._worker.calls

    @property
    def pid(self) -> int:
        """Its number."""
        return self._worker.pid

    @property
    def alive(self) -> bool:
        """It was not found dead, and was not ended."""
        return self._worker.alive

    @property
    def slices(self) -> int:
        """The slices that it works on."""
        return len(self._asked)

    @property
    def left_s(self) -> float:
        """Seconds until the next result is late."""
        return self._since + self.timeout_s - time.monotonic()

    def outline(self, outline: Outline, descriptor: int) -> None:
        """Tell it of the policy, and where its weights are.

        Raises:
            FallenWorkerError: it has ended, or takes no messages.
        """
        self._send(outline)
        try:
            send_handle(self.connection, descriptor, self.pid)
        except OSError:
            raise self._died() from None

    def update(self, update: Update) -> None:
        """Have it copy weights; `updated` waits until it has.

        Raises:
            FallenWorkerError: as for `outline`.
        """
        self._updating = True
        self._send(update)

    def updated(self, limit_s: float) -> None:
        """Wait until it has the weights, if it was told to take any.

        Raises:
            FallenWorkerError: it has ended, or has not answered within the limit.
            FailedEngineError: the engine has raised.
        """
        if not self._updating:
            return
        if not wait([self.connection], limit_s):
            raise self.late(f"has not taken the weights within {limit_s:g} s")
        answer = self._receive()
        self._updating = False
        if not isinstance(answer, Updated):
            raise self.late(f"answered an update of the weights with {type(answer).__name__}")

    def ask(self, requests: Sequence[Request]) -> None:
        """Have it continue requests, decoded together.

        Raises:
            FallenWorkerError: as for `outline`.
        """
        # numbers that are free to be used again may still be under way here
        sent = [replace(request, id=next(NUMBERS)) for request in requests]
        if not self._asked:
            self._since = time.monotonic()
        self._asked.append(_Asked(sent, {own.id: request.id for own, request in zip(sent, requests, strict=True)}))
        self._send(Ask(sent))

    def inherit(self, fallen: EngineProcess) -> None:
        """Make the requests of a process that has fallen its own; they are sent by `ask_again`."""
        self._asked = fallen._asked

    def ask_again(self) -> None:
        """Have it continue all of its requests: slices as they were, since the rows beside a row decide how it is rounded.

        Raises:
            FallenWorkerError: as for `outline`.
        """
        self._since = time.monotonic()
        for asked in self._asked:
            self._send(Ask(asked.requests))

    def forget(self, episodes: frozenset[int]) -> None:
        """Drop episodes, and their requests under way.

        Raises:
            FallenWorkerError: as for `outline`.
        """
        self._asked = [left for asked in self._asked if (left := asked.without(episodes)).wanted]
        # the run ends if it has fallen for good
        if self.alive:
            self._send(Forget(episodes))

    def results(self) -> list[Result]:
        """What its next message brings of what is still wanted; called once there is one.

        Raises:
            FallenWorkerError: it has ended.
            FailedEngineError: the engine has raised.
        """
        answer = self._receive()
        self._since = time.monotonic()
        if not isinstance(answer, Found):
            return []
        # nobody wants results of requests that were forgotten while they were under way, or that were answered before a worker fell
        numbers = {own: number for asked in self._asked for own, number in asked.wanted.items()}
        found = [replace(result, id=numbers[result.id]) for result in answer.results if result.id in numbers]
        for asked in self._asked:
            for result in answer.results:
                asked.wanted.pop(result.id, None)
        self._asked = [asked for asked in self._asked if asked.wanted]
        return found

    def late(self, why: str) -> FallenWorkerError:
        """End it, and say why."""
        status = self._worker.end()
        # whatever killed it before is the better reason
        died = "" if status in (None, -signal.SIGKILL) else f"; it had ended by {cause_of(status)}"
        return FallenWorkerError(f"process {self.pid} {why}{died}")

    def leave(self) -> None:
        """Tell it to close its engine and end, without waiting for it.

        Raises:
            FallenWorkerError: as for `outline`.
        """
        self._send(End())

    def end(self, patience_s: float) -> None:
        """Wait until it has ended, and kill it if it has not by then.

        Args:
            patience_s: seconds.
        """
        if not self.alive:
            return
        ends = time.monotonic() + patience_s
        # what it still says is not read: an interrupt may have left half a message there
        with contextlib.suppress(OSError):
            while wait([self.connection], max(0.0, ends - time.monotonic())) and os.read(self.connection.fileno(), READ):
                continue
        self._worker.end()

    def _send(self, message: ToWorker) -> None:
        if not self.alive:
            raise FallenWorkerError(f"process {self.pid} has ended")
        try:
            self.connection.send(message)
        except BlockingIOError:
            raise self.late(f"has taken no message for {self.timeout_s:g} s") from None
        except OSError:
            raise self._died() from None

    def _receive(self) -> FromWorker:
        try:
            message: FromWorker = self.connection.recv()
        except BlockingIOError:
            raise self.late(f"stopped in the middle of an answer for {self.timeout_s:g} s") from None
        except (EOFError, OSError):
            raise self._died() from None
        if isinstance(message, Failed):
            self._worker.end()
            raise FailedEngineError(message.why)
        return message

    def _died(self) -> FallenWorkerError:
        return FallenWorkerError(f"process {self.pid} died: {cause_of(self._worker.end())}")
