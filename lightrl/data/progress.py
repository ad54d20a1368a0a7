"""A bar on the screen while prompts are gone through."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
SILENT_S = 1.0
"""Seconds before it is shown: most data are ready by then."""
BETWEEN_S = {True: 0.2, False: 15.0}
"""Seconds between two looks of it, on a screen and in a file, which keeps them all."""


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
