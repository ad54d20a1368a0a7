"""The part of a completion that is its answer, and not its thoughts."""

THOUGHTS, THOUGHTS_END = "<think>", "</think>"


def spoken(completion: str) -> str:
    """A completion without its thoughts: neither what comes before the last `</think>` nor what follows a `<think>` left open."""
    return completion.rpartition(THOUGHTS_END)[2].partition(THOUGHTS)[0]
