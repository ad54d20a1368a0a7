"""Stop strings: a completion ends as soon as its text contains one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

MARGIN = 4
"""Tokens decoded before the reach of a stop string, so that half a character at the edge cannot hide it."""


class StopStrings:
    """Watches the texts of the rows of one batch.

    Only the last tokens of a row are decoded at each step: a token that decodes to anything adds at least one byte, so a stop string of
    b bytes that has just appeared ends in the last b tokens that are not special.
    """

    def __init__(self, stop: Sequence[str], decode: Callable[[Sequence[int]], str], special: Sequence[int]) -> None:
        """
        Args:
            stop: the stop strings; none is empty.
            decode: text of ids, special tokens left out.
            special: ids that `decode` leaves out.
        """
        self._stop, self._decode, self._special = tuple(stop), decode, frozenset(special)
        self._window = max(len(text.encode()) for text in stop) + MARGIN
        self._visible = defaultdict[int, list[int]](list)

    def seen(self, row: int, token: int) -> bool:
        """Take the row's next token; True if its text now contains a stop string."""
        visible = self._visible[row]
        if token in self._special:
            return False
        visible.append(token)
        # the window is the cheap test; the whole text decides
        return self._contains(visible[-self._window :]) and (len(visible) <= self._window or self._contains(visible))

    def _contains(self, ids: list[int]) -> bool:
        text = self._decode(ids)
        return any(stop in text for stop in self._stop)
