"""Which part of a completion is its answer: what was only thought is none."""

from __future__ import annotations

THOUGHTS, THOUGHTS_END = "<think>", "</think>"


def without_thoughts(completion: str) -> str:
    """A completion without its thoughts: neither what comes before the last `</think>` nor what follows a `<think>` left open.

    Every reward and every environment that looks for an answer looks for it here.

    Args:
        completion: as text, of one turn.
    """
    return completion.rpartition(THOUGHTS_END)[2].partition(THOUGHTS)[0]
