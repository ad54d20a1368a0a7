"""A limit on the time that code of somebody else may take in the main thread of this process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

REPEAT_S = 1.0
"""Seconds after which code that went on regardless is interrupted again."""


class _OverError(BaseException):
    """The time is over; code that catches every Exception does not catch this."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Within, Python code that takes longer is interrupted. Threads other than the main one cannot be interrupted, and have no limit.

    Args:
        seconds: of wall-clock time; > 0.

    Raises:
        TimeoutError: the time was over.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    inside = True

    def interrupt(number: int, frame: FrameType | None) -> None:
        if inside:
            raise _OverError

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds, REPEAT_S)
    try:
        yield
    except _OverError as over:
        raise TimeoutError(f"it took longer than {seconds:g} s") from over
    finally:
        inside = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
