"""A call as the workers know it: something is performed, and an answer comes back, of which an exception is one."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol, runtime_checkable

LONGEST = 500
"""Characters of an exception's message that are shown."""


@dataclass(frozen=True)
class Answer:
    """The answer to one call."""

    value: Any = None
    """A JSON value, if the call returned."""
    error: str | None = None
    """Why there is no value, in one line; None if the call returned."""
    late: bool = False
    """There is no value because the time was up."""
    seconds: float = 0.0
    """Wall-clock seconds of the call."""


class Performer(Protocol):
    """The object that makes the calls; pickled once and loaded where they are made."""

    def perform(self, call: Any) -> Answer:
        """Make one call; an exception becomes an answer."""


@runtime_checkable
class Servant(Protocol):
    """An object that talks with the training process in its own way; pickled once and loaded where it serves."""

    def serve(self, connection: Connection) -> None:
        """Take messages and answer them until the other end is closed; the worker ends with it."""


def describe(error: BaseException) -> str:
    """The exception in one line, with the file and line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    # a syntax error names its own place, and nothing was executed there
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames and not isinstance(error, SyntaxError) else ""
    message = _first_line(error)
    return f"{type(error).__name__}{': ' + message if message else ''}{place}"


def _first_line(error: BaseException) -> str:
    try:
        lines = str(error).strip().splitlines()
    except Exception as trouble:
        return f"its message cannot be had, str() raises {type(trouble).__name__}"
    shown = lines[0] if lines else ""
    shown = shown if len(shown) <= LONGEST else f"{shown[:LONGEST]} ... ({len(shown)} characters)"
    # half a surrogate pair can neither be logged nor stored
    return shown.encode("utf-8", "backslashreplace").decode()
