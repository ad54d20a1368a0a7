"""The error of a part that does what no part may do."""

from __future__ import annotations


class FaultyPartError(ValueError):
    """A part has returned something that cannot be used; the message says which part, what it returned and what was expected.

    The command line prints it without a traceback, also in the middle of a run.
    """
