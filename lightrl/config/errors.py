"""Errors of a request: what was wrong, at which key, what exists, what to type; three lines at most and no traceback."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable

LINES = 3
"""How many lines an error takes at most."""


class ConfigError(Exception):
    """Something in the config or on the command line cannot be carried out."""

    def __init__(self, key: str, problem: str, *hints: str) -> None:
        """
        Args:
            key: where it stands, for example `model.algorithm.clip`; empty if the problem names it.
            problem: what is wrong, what was expected, what exists.
            *hints: further lines: where it was given, what to type.
        """
        self.key, self.problem, self.hints = key, problem, hints
        super().__init__("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """The message, cut to `LINES` lines; what does not fit is counted."""
        first = f"{self.key}: {self.problem}" if self.key else self.problem
        lines = [line.strip() for text in (first, *self.hints) for line in text.splitlines() if line.strip()]
        if len(lines) <= LINES:
            return lines
        return [*lines[: LINES - 1], f"{lines[LINES - 1]} (and {len(lines) - LINES} more lines)"]


def report(error: ConfigError) -> int:
    """Print the error to stderr and return the exit status."""
    sys.stderr.write("\n".join(error.lines()) + "\n")
    return 2


def closest(name: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` if one of the known names is close, else nothing."""
    by_lower = {k.lower(): k for k in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f" Did you mean {by_lower[found[0]]!r}?" if found else ""
