"""The reward of the cases of `make bench` that measure time: it costs nothing, and groups are not of zero variance."""

from __future__ import annotations

import zlib


def noise(completion: str) -> float:
    """A number that the text decides, in [0, 1)."""
    return zlib.crc32(completion.encode()) / 2**32
