"""The outcome of a reward on a row."""

from __future__ import annotations

from enum import IntEnum


class Outcome(IntEnum):
    """The outcome of one reward on one row."""

    VALUE = 0
    """It returned a number."""
    ABSTAINED = 1
    """It returned None: it contributes nothing, the row stays while another reward scored it."""
    GATED = 2
    """Its gate was closed: the score is 0."""
    ERROR = 3
    """It raised, or returned NaN or infinity: the row is not scorable."""
    TIMEOUT = 4
    """It did not return in time: the row is not scorable."""
