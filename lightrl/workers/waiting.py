"""A long wait says what it waits for."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from lightrl.ranks import local_rank

PATIENCE_S = 1.5
"""Seconds that may pass in silence: a person begins to doubt after two."""


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Within, something may take long: soon a line says so, and at the end another one how long it took.

    Args:
        what: what is done, as `reading the data`.
    """
    started, told = time.monotonic(), threading.Event()

    def tell() -> None:
        told.set()
        sys.stderr.write(f"{what} ...\n")
        sys.stderr.flush()

    timer = threading.Timer(PATIENCE_S, tell)
    timer.daemon = True
    # one process of a run speaks for all
    if local_rank() == 0:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if told.is_set():
            sys.stderr.write(f"{what}: {time.monotonic() - started:.0f} s\n")
