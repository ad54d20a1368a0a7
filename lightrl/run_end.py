"""The error of a run that cannot go on for a reason that its user can mend."""

from __future__ import annotations


class RunEndedError(RuntimeError):
    """A run has ended before its time; the message says why and what to do, in few lines.

    The command line prints it without a traceback, and ends with status 1.
    """


class BrokenWeightsError(RunEndedError, FloatingPointError):
    """The policy's numbers are no longer finite."""
