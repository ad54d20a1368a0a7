"""Waiting for a coroutine that may do as it likes with its time limit and with its cancellation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from lightrl.workers.calls import describe
from lightrl.workers.forked import only_this_process

T = TypeVar("T")

GRACE_S = 1.0
"""Seconds that a cancelled coroutine may take to clear up before it is left to itself."""


async def in_time(work: Callable[[], Awaitable[T]], limit: float) -> T:
    """The result of some work; raises the exceptions that the work raises.

    The work gets a task of its own, with the name of the one that waits, since whoever awaits it directly also waits for one that catches
    its cancellation and goes on.

    Args:
        work: makes what is awaited.
        limit: seconds that it may take.

    Raises:
        TimeoutError: it took longer, whether or not it came to a result afterwards.
        RuntimeError: it raised what is no `Exception`.
    """
    waiting = asyncio.current_task()
    task = asyncio.create_task(_caught(work), name=None if waiting is None else waiting.get_name())
    try:
        await asyncio.wait({task}, timeout=limit)
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=GRACE_S)
            raise TimeoutError
    finally:
        task.cancel()
    result, seconds = task.result()
    if seconds > limit:
        # it has blocked the loop, so that nobody could cancel it
        raise TimeoutError
    if not isinstance(result, _Failure):
        return result
    if isinstance(result.error, Exception):
        raise result.error
    # whoever awaits this could not tell it from the end of its own task
    raise RuntimeError(f"{describe(result.error)} is no Exception")


@dataclass(frozen=True)
class _Failure:
    error: BaseException


async def _caught(work: Callable[[], Awaitable[T]]) -> tuple[T | _Failure, float]:
    """What it returned or raised, and the seconds that it took."""
    started = time.monotonic()
    try:
        with only_this_process():
            result: T | _Failure = await work()
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        # a task that raises KeyboardInterrupt or SystemExit ends the loop around it
        result = _Failure(error)
    return result, time.monotonic() - started
