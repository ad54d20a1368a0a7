"""The ends of processes: what a run has started ends with it, and what a part has forked ends with the call."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from lightrl.ranks import local_rank

PR_SET_PDEATHSIG = 1
"""From `linux/prctl.h`."""
POLL_S = 1.0
"""Seconds between two looks at whether the parent is still there."""
CLOSE_TIMEOUT_S = 5.0
"""Seconds that a process, a loop or an episode may take to end itself before it is ended."""


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the thread that has started it ends, where the kernel can (Linux).

    Args:
        parent: number of the process that has started it; if it is gone already, this process ends at once.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def end_rank_with_parent() -> None:
    """On ranks that were started by another process, end as soon as that is gone.

    A collective whose other end was killed may otherwise wait for as long as the strategy's timeout, and keep the device. The kernel is not
    asked: a launcher may start ranks in a thread that ends before them.
    """
    if local_rank() != 0:
        _watch_parent(threading.Event())


@contextmanager
def ending_with_parent() -> Iterator[None]:
    """Within, this process ends soon after its parent; the thread that looks is gone behind it, so that forking is safe again."""
    over = threading.Event()
    watch = _watch_parent(over)
    try:
        yield
    finally:
        over.set()
        watch.join()


def _watch_parent(over: threading.Event) -> threading.Thread:
    parent = os.getppid()

    def look() -> None:
        while not over.wait(POLL_S):
            if os.getppid() != parent:
                os.kill(os.getpid(), signal.SIGKILL)

    watch = threading.Thread(target=look, name="watch over the parent process", daemon=True)
    watch.start()
    return watch


@contextmanager
def only_this_process() -> Iterator[None]:
    """End whatever process comes to the end of the block, if it is not the one that has begun it.

    A process that a part has forked, and in which it returns, would otherwise do all that follows a second time.
    """
    begun = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != begun:
            os._exit(0)


class CtrlC(KeyboardInterrupt):
    """The KeyboardInterrupt of a person; code raises any other one itself."""


@contextmanager
def ctrl_c_marked() -> Iterator[None]:
    """Within, Ctrl-C raises `CtrlC` where it would raise KeyboardInterrupt. It reaches the main thread alone."""
    # another handler may change what the next Ctrl-C does, which could come while this one takes its place
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return

    def mark(number: int, frame: FrameType | None) -> None:
        raise CtrlC

    signal.signal(signal.SIGINT, mark)
    try:
        yield
    finally:
        # the code may have put another one in its place
        if signal.getsignal(signal.SIGINT) is mark:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def kill(pid: int) -> None:
    """Kill a worker and whatever it has started."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        # it had no time to become the leader of its session
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def cause_of(status: int | None) -> str:
    """The end of a worker in words, by its exit status; None: it is not known."""
    if status is None:
        return "so did the process that started it"
    return f"signal {-status} ({signal.Signals(-status).name})" if status < 0 else f"exit status {status}"
