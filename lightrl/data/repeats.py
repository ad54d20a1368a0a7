"""Equal numbers among many."""

from __future__ import annotations

from array import array

import numpy as np


def repeats(numbers: array[int]) -> dict[int, int]:
    """For each place at which a number stands that stood before: how often it has stood until then, 2 or more.

    Args:
        numbers: integers of 64 bits without a sign.
    """
    found = np.frombuffer(numbers, np.uint64)
    order = np.argsort(found, kind="stable")
    again = np.flatnonzero(found[order][1:] == found[order][:-1]) + 1
    counts: dict[int, int] = {}
    for before, place in zip(order[again - 1].tolist(), order[again].tolist(), strict=True):
        counts[place] = counts.get(before, 1) + 1
    return counts
