"""Errors of a request: three lines at most and no traceback, with the key, the names that exist and an example to type."""

from __future__ import annotations

import sys

LINES = 3
"""The most lines that an error takes."""


class ConfigError(Exception):
    """Something in the config or on the command line cannot be carried out."""

    def __init__(self, key: str, problem: str, *hints: str) -> None:
        """
        Args:
            key: its place, for example `model.algorithm.clip`; empty if the problem names it.
            problem: the value that is wrong, the type that was expected, the names that exist.
            *hints: further lines: the source of the value, an example to type.
        """
        self.key, self.problem, self.hints = key, problem, hints
        super().__init__("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """The message, cut to `LINES` lines; the others are counted."""
        first = f"{self.key}: {self.problem}" if self.key else self.problem
        lines = [line.strip() for text in (first, *self.hints) for line in text.splitlines() if line.strip()]
        if len(lines) <= LINES:
            return lines
        return [*lines[: LINES - 1], f"{lines[LINES - 1]} (and {len(lines) - LINES} more lines)"]


def report(error: ConfigError) -> int:
    """Print the error to stderr and return the exit status."""
    sys.stderr.write("\n".join(error.lines()) + "\n")
    return 2
