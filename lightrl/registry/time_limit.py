"""A limit on what code of somebody else may use of the main thread of this process, and on what it may end: that one's output and life.

What counts is the thread's own CPU time, so a cold disk or a crowded core costs a plugin nothing. Code that sleeps, or waits for a network
or a lock, uses no CPU time: it ends when it has done nothing else for as long as it might have computed. A read from a disk cannot be
interrupted, so a wait for one is never taken for sleep, and the stop of the whole process (Ctrl-Z, a suspended laptop) is neither.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from lightrl.workers.process_ends import CtrlC, ctrl_c_marked

POLL_S = 1.0
"""Seconds at most between two looks at the code; what goes on regardless is interrupted again at each of them."""
ASLEEP = 0.01
"""The share of a core below which code is asleep: a loop that looks for something a hundred times a second uses less."""


class _OverError(BaseException):
    """The limit is reached, and why; code that catches every Exception does not catch this."""


class UnrulyError(RuntimeError):
    """Code of somebody else raised what ends a process, or closed the output."""


class _Used:
    """What the code has used, as the looks find it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.every = min(POLL_S, seconds / 10)
        self.begun = self.last = time.thread_time()
        self.asleep = 0.0
        self.inside = True

    def look(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal of the timer, which comes once for a look that the machine did not let happen in time."""
        now = time.thread_time()
        self.asleep = self.asleep + self.every if now - self.last < ASLEEP * self.every else 0.0
        self.last = now
        if not self.inside:
            return
        if now - self.begun > self.seconds:
            raise _OverError(f"it computed for more than {self.seconds:g} s")
        if self.asleep > self.seconds:
            raise _OverError(f"it was asleep for {self.seconds:g} s: does it wait for a network, a lock or another process?")


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Within, a TimeoutError ends code that computes or sleeps for longer.

    In threads other than the main one nothing can be interrupted, nor is limited. An UnrulyError says that the code raised what is no
    Exception, called `os._exit`, or closed stdout or stderr.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    used = _Used(seconds)
    before = signal.signal(signal.SIGALRM, used.look)
    signal.setitimer(signal.ITIMER_REAL, used.every, used.every)
    with ctrl_c_marked():
        try:
            with _open_output(), _no_exit():
                yield
        except _OverError as over:
            raise TimeoutError(str(over)) from over
        except (Exception, SystemExit, CtrlC):
            raise
        except BaseException as error:
            raise UnrulyError(f"it raised {type(error).__name__}: {error}") from error
        finally:
            used.inside = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


@contextmanager
def _no_exit() -> Iterator[None]:
    """Within, `os._exit` is an error, but in a process that the code has forked."""
    leave, owner = os._exit, os.getpid()

    def refuse(status: int) -> None:
        if os.getpid() != owner:
            leave(status)
        raise UnrulyError(f"it called os._exit({status})")

    setattr(os, "_exit", refuse)  # noqa: B010 - its type says that it never returns
    try:
        yield
    finally:
        setattr(os, "_exit", leave)  # noqa: B010


@contextmanager
def _open_output() -> Iterator[None]:
    """Stdout and stderr are open after it as they were before; an UnrulyError if the code has closed one."""
    streams = {"stdout": (sys.stdout, 1), "stderr": (sys.stderr, 2)}
    kept = {handle: os.dup(handle) for _, handle in streams.values() if _is_open(handle)}
    try:
        yield
    finally:
        lost = [
            name
            for name, (stream, handle) in streams.items()
            if getattr(stream, "closed", False) or (handle in kept and not _is_open(handle))
        ]
        for handle, copy in kept.items():
            if not _is_open(handle):
                os.dup2(copy, handle)
            os.close(copy)
        for name in lost:
            setattr(sys, name, open(streams[name][1], "w", closefd=False))  # noqa: SIM115 - it is the process's own
    if lost:
        raise UnrulyError(f"it closed {' and '.join(lost)}")


def _is_open(handle: int) -> bool:
    try:
        os.fstat(handle)
    except OSError:
        return False
    return True
