"""An event loop in a thread of its own, whose standstill is noticed, and coroutines in it, which may ignore their time limit."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from lightrl.workers.calls import Answer, describe, failed
from lightrl.workers.process_ends import only_this_process

log = logging.getLogger(__name__)
T = TypeVar("T")
C = TypeVar("C")

CHECK_S = 0.1
"""Seconds between two checks that the loop still runs."""
END_S = 2.0
"""Seconds that what is under way may take to end once it was cancelled."""
GRACE_S = 1.0
"""Seconds that a cancelled coroutine may take to clear up before it is left to itself."""


class CallLoop(ABC, Generic[C]):
    """A thread that runs an event loop until it is ended, and the object whose calls are made in it."""

    def __init__(self, name: str) -> None:
        self.loop, self._process = asyncio.new_event_loop(), os.getpid()
        self.abandoned = False
        """It stood still, and was given up."""
        self._ran_at = time.monotonic()
        self.loop.call_soon(self._note)
        self._over = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def answer(self, calls: Sequence[C], answers: dict[int, Answer]) -> None:
        """Make the calls that have no answer yet, and put each answer into its place."""
        async with asyncio.TaskGroup() as group:
            for place, call in enumerate(calls):
                if place not in answers:
                    self.begun(call, group.create_task(self._answer_one(place, call, answers)))
        for place in range(len(calls)):
            # something has cancelled the task of this call alone
            answers.setdefault(place, failed(asyncio.CancelledError()))

    async def _answer_one(self, place: int, call: C, answers: dict[int, Answer]) -> None:
        answers[place] = await self.answer_one(call)

    @abstractmethod
    async def answer_one(self, call: C) -> Answer:
        """Make a call."""

    def begun(self, call: C, task: asyncio.Task[None]) -> None:
        """Take note of the task that makes a call."""

    @abstractmethod
    async def farewell(self, patience_s: float) -> None:
        """Give back what the calls have opened."""

    @abstractmethod
    def method(self, call: C) -> str:
        """The method that a call is made with, in messages."""

    def successor(self) -> CallLoop[C] | None:
        """The loop that takes over from one that was abandoned; None: the next call makes one."""
        return None

    def blocked_by(self, call: C) -> bool:
        """Once it was abandoned: the call fails, since it may be the one that blocks the loop. The others are made again elsewhere."""
        return True

    def fail(self, call: C) -> None:
        """Take note that a call has failed in a loop before this one."""

    def run(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Put a coroutine into the loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def still_for(self) -> float:
        """Seconds since the loop was last seen running."""
        return time.monotonic() - self._ran_at

    def wait(self, future: Future[Any], limit: float) -> bool:
        """Wait until a future is done; False if the loop has stood still for longer than `limit` seconds before.

        An interrupt cancels the future.
        """
        try:
            while not future.done():
                try:
                    future.result(CHECK_S)
                except TimeoutError:
                    if not future.done() and self.still_for() > limit:
                        return False
            future.result()
        except BaseException:
            future.cancel()
            raise
        return True

    def close(self, patience_s: float) -> None:
        """Say farewell and end the loop; one that stands still is not waited for long."""
        if self.loop.is_running() and self.still_for() < patience_s:
            try:
                self.run(self.farewell(patience_s)).result(patience_s)
            except Exception as error:
                name, why = self._thread.name, describe(error)
                log.warning("close() in the %s has failed, or was not done within %g s: %s", name, patience_s, why)
        self.end()
        self._thread.join(patience_s)

    def end(self) -> None:
        """Cancel everything under way and stop the loop, as soon as it runs."""
        if self.loop.is_running():
            self.run(self._end())

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            # some go on whatever they are told
            await asyncio.wait(others, timeout=END_S)
        self._over = True
        self.loop.call_soon(self.loop.stop)

    def _run(self) -> None:
        while not self._over:
            # what runs in it may stop it, or raise what ends it
            try:
                self.loop.run_forever()
            except BaseException as error:
                log.warning("something in the %s has raised %s; the loop goes on", self._thread.name, describe(error))

    def _note(self) -> None:
        if os.getpid() != self._process:
            # a process that a coroutine has forked, with a copy of everything under way
            os._exit(0)
        self._ran_at = time.monotonic()
        self.loop.call_later(CHECK_S, self._note)


async def in_time(work: Callable[[], Awaitable[T]], limit: float) -> T:
    """The result of some work; raises the exceptions that the work raises.

    The work gets a task of its own, with the name of the one that waits, since whoever awaits it directly also waits for one that catches
    its cancellation and goes on.

    Args:
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


async def answer_of(work: Callable[[], Awaitable[Any]], limit: float) -> Answer:
    """The result of some work, or why it has failed; the seconds after which it raises TimeoutError are only for the message."""
    started = time.perf_counter()
    try:
        return Answer(await work(), seconds=time.perf_counter() - started)
    except Exception as error:
        return failed(error, time.perf_counter() - started, limit)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # something that the work itself waited for was cancelled
        return failed(error, time.perf_counter() - started)


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
