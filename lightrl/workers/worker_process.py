"""The training process's side of a fork server and of its workers."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.reduction import send_handle

from lightrl.run_end import RunEndedError
from lightrl.workers.calls import Answer
from lightrl.workers.fork_server import FORK, WAIT
from lightrl.workers.process_ends import CLOSE_TIMEOUT_S, cause_of, kill
from lightrl.workers.program import WorkerProgram

PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[2]); from lightrl.workers.fork_server import serve; serve(int(sys.argv[1]))"
READ = 1 << 16
LOAD_S = 300.0
"""Seconds that a part may take to load, if its program does not say: some bring a library, or a model."""


class ForkServer:
    """A process that has loaded one reward, environment or engine and forks workers of it."""

    def __init__(self, program: WorkerProgram) -> None:
        """Raises RuntimeError for a program that cannot be pickled."""
        setup = program.setup()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(theirs.fileno()), json.dumps(sys.path)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._program, self._control = program, Connection(ours.detach())
        self._lock, self._loaded = threading.Lock(), False
        self._control.send_bytes(setup)

    def fork(self) -> Worker:
        """A new worker.

        Raises:
            RunEndedError: the program could not be loaded.
            EOFError: the process has ended.
        """
        with self._lock:
            self._wait_until_loaded()
            ours, theirs = socket.socketpair()
            with theirs:
                self._control.send_bytes(FORK)
                send_handle(self._control, theirs.fileno(), self._process.pid)
                pid = int(self._control.recv_bytes())
        return Worker(pid, ours, self)

    def wait(self, pid: int) -> int:
        """The exit status of a worker that has ended, negative for a signal."""
        with self._lock:
            self._control.send_bytes(WAIT + str(pid).encode())
            return int(self._control.recv_bytes())

    def close(self) -> None:
        """End the process and its workers, and wait until the process has ended."""
        with contextlib.suppress(OSError), socket.fromfd(self._control.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as ours:
            # whoever waits for an answer is told that none will come
            ours.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            # it is still loading, and has no workers yet
            self._process.kill()
            self._process.wait()

    def _wait_until_loaded(self) -> None:
        if self._loaded:
            return
        limit = LOAD_S if self._program.load_s is None else self._program.load_s
        try:
            trouble = self._control.recv_bytes().decode() if self._control.poll(limit) else f"not done after {limit:g} s"
        except (EOFError, OSError):
            trouble = f"the process ended while it loaded the {self._program.noun}"
        if trouble:
            self.close()
            raise RunEndedError(f"{self._program.name} cannot be loaded in a worker process: {trouble}")
        self._loaded = True


class Worker:
    """A process that makes calls and can be killed."""

    def __init__(self, pid: int, channel: socket.socket, server: ForkServer) -> None:
        self.pid, self.alive, self._asked, self._unread = pid, True, 0, b""
        self.channel, self._server = channel, server
        self.calls = Connection(os.dup(channel.fileno()))
        """The channel as messages of any length, for those who do without a time limit for each call."""

    def answers(self, calls: Sequence[object], timeout_s: float) -> list[Answer]:
        """The answers to the first calls: to all of them, or up to the one that the worker did not survive.

        Args:
            calls: at least one.
            timeout_s: seconds for each of them.
        """
        first = self._asked
        self._asked += len(calls)
        try:
            # one that has stopped reads nothing, and a socket takes only so much
            self.channel.settimeout(None)
            self.channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", math.ceil(timeout_s), 0))
            self.calls.send((first, calls))
        except OSError:
            # one that ended while it had nothing to do is no call's fault, but one that was new would be replaced for ever
            died = Answer(error=f"its worker process died: {cause_of(self.end())}")
            return [] if first else [died]
        answers: list[Answer] = []
        while len(answers) < len(calls):
            line = self._line(timeout_s)
            if isinstance(line, Answer):
                return [*answers, line]
            answer, leaves = _read(line, first + len(answers))
            answers.append(answer)
            if leaves:
                self.end()
                return answers
        if self._unread:
            # somebody else writes here, and would be taken for the answer to the next call
            self.end()
        return answers

    def _line(self, timeout_s: float) -> bytes | Answer:
        """The next line that the worker sends, or the failure of the call that it has not survived."""
        since = time.monotonic()
        while b"\n" not in self._unread:
            try:
                self.channel.settimeout(max(0.0, since + timeout_s - time.monotonic()) or 1e-3)
                data = self.channel.recv(READ)
            except TimeoutError:
                return self._timed_out(timeout_s)
            except OSError:
                data = b""
            if not data:
                return Answer(error=f"its worker process died: {cause_of(self.end())}", seconds=time.monotonic() - since)
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _timed_out(self, timeout_s: float) -> Answer:
        status = self.end()
        if status is not None and status != -signal.SIGKILL:
            # a process that it has started holds its end of the channel, so its death was not seen
            return Answer(error=f"its worker process died: {cause_of(status)}", seconds=timeout_s)
        return Answer(error=f"no answer within {timeout_s:g} s; its worker was killed", late=True, seconds=timeout_s)

    def end(self) -> int | None:
        """Kill it if it still runs; its exit status, if its server still knows it."""
        self.alive = False
        kill(self.pid)
        self.calls.close()
        self.channel.close()
        try:
            return self._server.wait(self.pid)
        except (EOFError, OSError):
            return None


def _read(line: bytes, expected: int) -> tuple[Answer, bool]:
    """The answer to the call of this number, and whether the worker is of no more use."""
    try:
        number, value, error, seconds, leaves = json.loads(line)
        if number == expected:
            return Answer(value, error, seconds=seconds), bool(leaves)
    except (ValueError, TypeError):
        pass
    return Answer(error=f"its worker process sent what is no answer to this call: {line[:80]!r}"), True


class WorkerSource:
    """Gives out workers of one program, to several threads at once.

    Each is forked when it is needed, by a server that is started then, and replaced once it has failed.
    """

    def __init__(self, program: WorkerProgram) -> None:
        self._program, self._lock = program, threading.Lock()
        self._server: ForkServer | None = None
        self._closed = False
        self._failure: RuntimeError | None = None

    def start(self) -> None:
        """Start the server, and do not wait for it; a RuntimeError if the program cannot be pickled."""
        self._running_server(None)

    def ready(self, worker: Worker | None) -> Worker:
        """The given worker if it still runs, else a new one; a RuntimeError if the program cannot be loaded, or the workers were closed."""
        if worker is not None and worker.alive:
            return worker
        server = self._running_server(None)
        try:
            return server.fork()
        except (EOFError, OSError):
            # something has killed the server, a memory watchdog perhaps: one more is tried
            return self._running_server(server).fork()
        except RuntimeError as error:
            self._failure = error
            raise

    def close(self) -> None:
        """End all processes."""
        self._closed = True
        with self._lock:
            if self._server is not None:
                self._server.close()

    def _running_server(self, failed: ForkServer | None) -> ForkServer:
        """The server; a new one if there is none, or if the given one has failed."""
        with self._lock:
            if self._closed:
                raise RuntimeError(f"the {self._program.noun}'s workers were closed")
            if self._failure is not None:
                raise self._failure
            if self._server is None or self._server is failed:
                if failed is not None:
                    failed.close()
                self._server = ForkServer(self._program)
            return self._server
