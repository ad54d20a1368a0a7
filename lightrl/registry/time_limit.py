"""A limit on what code of somebody else may use of the main thread of this process.

What counts is the thread's own CPU time, so a cold disk or a crowded core costs a plugin nothing. Code that sleeps, or waits for a network
or a lock, uses no CPU time: it ends when it has done nothing else for as long as it might have computed. A read from a disk cannot be
interrupted, so a wait for one is never taken for sleep, and the stop of the whole process (Ctrl-Z, a suspended laptop) is neither.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

POLL_S = 1.0
"""Seconds at most between two looks at the code; what goes on regardless is interrupted again at each of them."""
ASLEEP = 0.01
"""The share of a core below which code is asleep: a loop that looks for something a hundred times a second uses less."""


class _OverError(BaseException):
    """The limit is reached, and why; code that catches every Exception does not catch this."""


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

    In threads other than the main one nothing can be interrupted, nor is limited.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    used = _Used(seconds)
    before = signal.signal(signal.SIGALRM, used.look)
    signal.setitimer(signal.ITIMER_REAL, used.every, used.every)
    try:
        yield
    except _OverError as over:
        raise TimeoutError(str(over)) from over
    finally:
        used.inside = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
