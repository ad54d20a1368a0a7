"""Rewards that misbehave where the completion names a deed; elsewhere they say how long it is. The module needs no torch."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from lightrl import AsyncReward, Prompt, RowReward


class OwnError(BaseException):
    """No `Exception`."""


class Unspeakable(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise ValueError("no words")


class Sly(float):
    def __float__(self) -> float:
        return "much"  # type: ignore[return-value]


class Whole(int):
    def __index__(self) -> int:
        raise ValueError("not whole")

    def __int__(self) -> int:
        raise ValueError("not whole")


class Liar:
    __class__ = float  # type: ignore[assignment]


class Array:
    def __init__(self, value: Any) -> None:
        self.value = value

    def tolist(self) -> Any:
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value


def raised(error: BaseException) -> None:
    raise error


def caused_by_itself() -> None:
    error = ValueError("round and round")
    error.__cause__ = error.__context__ = error
    raise error


def endless(deep: int) -> float:
    return endless(deep + 1)


def circle() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


FAILURES: dict[str, Callable[[], Any]] = {
    "too large": lambda: 10**400,
    "too large for text": lambda: -(10**5000),
    "too large for a token": lambda: [0.0, 10**400],
    "not a number in an array": lambda: Array(float("nan")),
    "an exception of its own": lambda: raised(OwnError("mine")),
    "end of a generator": lambda: raised(GeneratorExit()),
    "an interrupt of its own": lambda: raised(KeyboardInterrupt()),
    "cancelled": lambda: raised(asyncio.CancelledError()),
    "no words": lambda: raised(Unspeakable()),
    "many words": lambda: raised(ValueError("x" * 10**7)),
    "half a character": lambda: raised(ValueError("\ud800")),
    "its own cause": caused_by_itself,
    "a group": lambda: raised(BaseExceptionGroup("all", [OwnError(), ValueError()])),
    "end of an iterator": lambda: raised(StopIteration(1.0)),
    "no recursion left": lambda: endless(0),
    "an array that is none": lambda: Array(OSError("gone")),
    "an array that exits": lambda: Array(SystemExit(0)),
    "a liar": Liar,
}
"""The row fails, in whatever process or loop the reward runs."""

WRONG: dict[str, Callable[[], Any]] = {
    "bytes": lambda: b"1",
    "a mapping": lambda: {"score": 1.0},
    "a decimal": lambda: Decimal("1"),
    "an endless generator": itertools.count,
    "a circle": circle,
    "a nested list": lambda: Array([[1.0, 2.0]]),
    "too few": lambda: [1.0],
    "a class": lambda: float,
}
"""The author's mistake, which stops the run with a short message."""

VALUES: dict[str, Callable[[], Any]] = {"sly": lambda: Sly(4.0), "whole": lambda: Whole(4), "a single one": lambda: Array(4)}
"""Good for 4.0."""

CHANNELS = range(3, 64)
FORKED: list[int] = []
"""Numbers of processes that were forked here."""


def write_everywhere(data: bytes) -> float:
    for channel in CHANNELS:
        try:
            os.write(channel, data)
        except OSError:
            continue
    return 3.0


def forks_and_goes_on() -> float:
    FORKED.append(os.fork())
    return 3.0


def forks_and_fails() -> float:
    if os.fork() == 0:
        raise OwnError("the copy")
    return 3.0


def forks_and_leaves() -> float:
    if os.fork() != 0:
        os._exit(0)
    return 3.0


def later(deed: Callable[[], object]) -> float:
    threading.Timer(0.05, deed).start()
    return 3.0


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def leaves_its_session() -> float:
    if os.fork() == 0:
        os.setsid()
        time.sleep(3)
        os._exit(0)
    return 3.0


PROCESS_FAILURES: dict[str, Callable[[], Any]] = {
    "closes everything": lambda: os.closerange(3, 64),
    "answers in advance": lambda: write_everywhere(b"[0, 9.0, null, 0, false]\n" * 3),
    "writes among the answers": lambda: write_everywhere(b"hello\nworld"),
    "stops": stop,
    "leaves its copy behind": forks_and_leaves,
}
PROCESS_VALUES: dict[str, Callable[[], Any]] = {
    "forks and goes on": forks_and_goes_on,
    "forks, and the copy fails": forks_and_fails,
    "forks, and the copy leaves its session": leaves_its_session,
    "dies later": lambda: later(lambda: os._exit(1)),
    "stops later": lambda: later(stop),
    "prints much": lambda: (sys.stderr.write("x" * 10**6 + "\n"), 3.0)[1],
}
"""Good for 3.0, and the rows after it get their own scores."""

DEEDS = {**FAILURES, **WRONG, **VALUES, **PROCESS_FAILURES, **PROCESS_VALUES}


class Misbehaves(RowReward):
    """In processes."""

    def score(self, prompt: Prompt, completion: str) -> Any:
        return DEEDS.get(completion, lambda: float(len(completion)))()


class MisbehavesInline(Misbehaves):
    """In the training process."""

    runs = "inline"


class Waits(AsyncReward):
    """In an event loop."""

    async def score(self, prompt: Prompt, completion: str) -> Any:  # type: ignore[override]
        await asyncio.sleep(0.01)
        return DEEDS.get(completion, lambda: float(len(completion)))()


class Writes(RowReward):
    """Writes into everything that it is given."""

    runs = "inline"

    def score(self, prompt: Prompt, completion: str, *, answer: Any, steps: list[int], messages: list[Any]) -> float:  # type: ignore[override]
        seen = float(steps[0] + answer["n"] + len(messages))
        steps[0] = answer["n"] = 99
        prompt.columns["steps"].append(7)  # type: ignore[index, union-attr]
        prompt.columns["new"] = 1  # type: ignore[index]
        messages[0]["content"] = "gone"
        messages.clear()
        return seen
