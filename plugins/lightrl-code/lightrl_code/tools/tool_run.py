"""Running a tool: whatever it does, the policy gets a text."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

AGAIN_S = 0.05
"""Seconds until a tool that went on in spite of its time limit is interrupted again."""


class ToolUnavailableError(Exception):
    """A tool cannot work at all, whatever it is asked: the episode fails, in place of an error that the policy would get."""


class ToolResult(NamedTuple):
    """The outcome of a call."""

    text: str
    failed: bool


class _TimeUp(BaseException):
    """The time limit of a tool; no `except Exception` of the tool stops it."""


def run_tool(function: Callable[..., object], arguments: Mapping[str, object], seconds: float, limit_s: float, longest: int) -> ToolResult:
    """Call a tool in the main thread, for the `seconds` that are left of a limit; only its ToolUnavailableError is raised."""
    try:
        # standard output may be a file that somebody reads
        with contextlib.redirect_stdout(sys.stderr), _time_limit(seconds):
            return ToolResult(cut(as_text(function(**arguments)), longest), failed=False)
    except _TimeUp:
        return error_result(f"no result within {limit_s:g} s", longest)
    except ToolUnavailableError:
        raise
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # no Ctrl-C reaches a worker, so this is the tool's own
        return error_result(_said(error), longest)


def error_result(message: str, longest: int) -> ToolResult:
    """An error as the policy reads it."""
    return ToolResult(cut(f"Error: {message}", longest), failed=True)


def as_text(result: object) -> str:
    """A text as it is, another JSON value as JSON, anything else by `str`; what UTF-8 cannot write is replaced."""
    try:
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = str(result)
    return text.encode("utf-8", "replace").decode()


def cut(text: str, longest: int) -> str:
    """The beginning of a text, with a note of how much was left out."""
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text) - longest} more characters)"


def _said(error: BaseException) -> str:
    try:
        message = as_text(str(error)).strip()
    except Exception:
        message = "its message cannot be shown"
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    running = True

    def interrupt(number: int, frame: object) -> None:
        if running:
            raise _TimeUp

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_S)
            yield
        finally:
            # an interrupt may still come in between, and the timer is to be stopped all the same
            running = False
    finally:
        running = False
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
