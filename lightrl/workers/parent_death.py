"""A process that ends when the process that has started it is gone, whatever it is doing."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""From `linux/prctl.h`."""


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, where the kernel can (Linux).

    Args:
        parent: number of the process that has started it; if it is gone already, this process ends at once.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
