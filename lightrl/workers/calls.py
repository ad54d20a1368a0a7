"""A call of foreign code: something is performed in some place, and an answer comes back, of which an exception is one.

These words are the same for rewards, environments and engines. A call is *pending* until it has an answer; it has *failed* if the answer
is an error, and is *late* if the error is that its time was up. A *place* is where calls are made: in this process, in worker processes,
or in an event loop.
"""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol, runtime_checkable

from lightrl.workers.process_ends import CtrlC, ctrl_c_marked, only_this_process

LONGEST = 500
"""Characters of an exception's message that are shown."""


class WrongAnswerError(Exception):
    """Foreign code has answered something that is no answer; the message is all that is said of it."""


@dataclass(frozen=True)
class Answer:
    """The answer to one call."""

    value: Any = None
    """What the call returned, if it did; a JSON value where it comes from another process."""
    error: str | None = None
    """Why the call has failed, in one line; None if it returned."""
    late: bool = False
    """It has failed because the time was up."""
    seconds: float = 0.0
    """Wall-clock seconds of the call."""


def answered(work: Callable[[], Any]) -> Answer:
    """Make a call in this process; an exception becomes the answer, and Ctrl-C is raised where it is marked."""
    started = time.perf_counter()
    try:
        with only_this_process():
            value = work()
    except CtrlC:
        raise
    except BaseException as error:
        return failed(error, time.perf_counter() - started)
    return Answer(value, seconds=time.perf_counter() - started)


def failed(error: BaseException, seconds: float = 0.0, limit: float | None = None) -> Answer:
    """The answer of a call that has raised.

    Args:
        limit: seconds that it was given, after which it raises TimeoutError; None: a TimeoutError is one of its own.
    """
    if limit is not None and isinstance(error, TimeoutError):
        return Answer(error=f"no answer within {limit:g} s ({describe(error)})", late=True, seconds=seconds)
    return Answer(error=describe(error), seconds=seconds)


class Performer(Protocol):
    """The object that makes the calls; pickled once and loaded where they are made."""

    def perform(self, call: Any) -> Answer:
        """Make one call; an exception becomes an answer."""


@runtime_checkable
class Servant(Protocol):
    """An object that talks with the training process in its own way; pickled once and loaded where it serves."""

    def serve(self, connection: Connection) -> None:
        """Take messages and answer them until the other end is closed; the worker ends with it."""


class Pending(Protocol):
    """Calls under way."""

    def result(self) -> Sequence[Answer]:
        """Wait for them: one answer per call, in order."""

    def when_done(self, use: Callable[[Sequence[Answer]], None]) -> None:
        """Call a function with the answers once they are there.

        It may be called in another thread, and with some answers at a time; never for calls that were ended with their place.
        """


@dataclass(frozen=True)
class Done:
    """Answers that are there already."""

    answers: Sequence[Answer]
    """One per call."""

    def result(self) -> Sequence[Answer]:
        """The answers."""
        return self.answers

    def when_done(self, use: Callable[[Sequence[Answer]], None]) -> None:
        """Call it now."""
        use(self.answers)


@dataclass(frozen=True)
class Shares:
    """Answers to come from several workers."""

    places: list[list[int]]
    """Per share, the places of its answers among all."""
    futures: list[Future[list[Answer]]]
    """Per share, its answers."""

    def result(self) -> Sequence[Answer]:
        """Wait for all of them; an interrupt cancels those that have not begun."""
        answers: dict[int, Answer] = {}
        try:
            for places, future in zip(self.places, self.futures, strict=True):
                answers |= zip(places, future.result(), strict=True)
        except BaseException:
            for future in self.futures:
                future.cancel()
            raise
        return [answers[place] for place in range(len(answers))]

    def when_done(self, use: Callable[[Sequence[Answer]], None]) -> None:
        """Call it with each share."""
        for future in self.futures:
            future.add_done_callback(lambda future: use_result(future, use))


def use_result(future: Future[Any], use: Callable[[Any], None]) -> None:
    """Call a function with the result of a future that is done, if it has one."""
    if not future.cancelled() and future.exception() is None:
        use(future.result())


class Place(ABC):
    """Makes the calls of one part, in its own way."""

    @property
    def started(self) -> bool:
        """It has what it needs; False: a call starts it."""
        return True

    def check(self) -> None:  # noqa: B027 - what runs in this process has nothing to be sent
        """Raise ValueError for a part that cannot be sent to where it is to run."""

    def start(self) -> None:  # noqa: B027 - nor anything to start
        """Get ready in the background."""

    @abstractmethod
    def submit(self, calls: Sequence[Any]) -> Pending:
        """Begin with these calls, and come back at once where that is possible."""

    def close(self) -> None:  # noqa: B027 - nor to end
        """End everything that was started; a later call starts it again."""


class Inline(Place):
    """Makes calls one after another in this process; an exception is caught, but nothing can stop a call that does not return."""

    def __init__(self, performer: Performer) -> None:
        self._performer = performer

    def submit(self, calls: Sequence[Any]) -> Done:
        with ctrl_c_marked():
            return Done([self._performer.perform(call) for call in calls])


def describe(error: BaseException) -> str:
    """The exception in one line, with the file and line that raised it."""
    if isinstance(error, WrongAnswerError):
        return str(error)
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
