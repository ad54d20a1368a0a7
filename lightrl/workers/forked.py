"""A part that forks: only the process that was asked goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


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
