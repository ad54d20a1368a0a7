"""A long wait says what it waits for, and a bar shows how far prompts have been gone through."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from lightrl.ranks import local_rank

T = TypeVar("T")
PATIENCE_S = 1.5
"""Seconds that may pass in silence: a person begins to doubt after two."""
SILENT_S = 1.0
"""Seconds before a bar is shown: most data are ready by then."""
BETWEEN_S = {True: 0.2, False: 15.0}
"""Seconds between two looks of a bar, on a screen and in a file, which keeps them all."""


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Within, something may take long: soon a line says so, and at the end another one how long it took. `what`: as `reading the data`."""
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


def shown(items: Iterable[T], doing: str, total: int | None = None) -> Iterator[T]:
    """The items, with a bar on the first rank once it takes longer than a moment.

    Args:
        doing: names the work, such as `reading train.jsonl`.
        total: number of items; None: unknown.
    """
    from lightning.pytorch.utilities import rank_zero_only
    from tqdm import tqdm

    between, silent = BETWEEN_S[sys.stderr.isatty()], getattr(rank_zero_only, "rank", 0) != 0
    bar = tqdm(items, doing, total, leave=False, mininterval=between, disable=silent, unit=" rows", unit_scale=True, delay=SILENT_S)
    return iter(bar)
