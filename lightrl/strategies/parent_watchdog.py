"""A process that another one of the run has started ends with it."""

from __future__ import annotations

import os
import signal
import threading
import time


def end_with_parent() -> None:
    """On ranks that were started by another process, end as soon as that is gone.

    A collective whose other end was killed may otherwise wait for as long as the strategy's timeout, and keep the device.
    """
    if os.environ.get("LOCAL_RANK", "0") != "0":
        threading.Thread(target=_die_with, args=[os.getppid()], name="watch over the parent process", daemon=True).start()


def _die_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGKILL)
