"""An event loop in a thread of its own, whose standstill is noticed."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from lightrl.workers.calls import describe

log = logging.getLogger(__name__)
T = TypeVar("T")

CHECK_S = 0.1
"""Seconds between two checks that the loop still runs."""
END_S = 2.0
"""Seconds that what is under way may take to end once it was cancelled."""


class LoopThread:
    """A thread that runs an event loop until it is ended."""

    def __init__(self, name: str, at_end: Callable[[], None]) -> None:
        """
        Args:
            name: of the thread.
            at_end: called in the loop before everything under way is cancelled.
        """
        self.loop, self._at_end, self._process = asyncio.new_event_loop(), at_end, os.getpid()
        self._ran_at = time.monotonic()
        self.loop.call_soon(self._note)
        self._over = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

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

    def close(self, farewell: Callable[[], Coroutine[Any, Any, None]], patience: float) -> None:
        """Run a last coroutine and end the loop; one that stands still is not waited for long.

        Args:
            farewell: makes the coroutine.
            patience: seconds that it may take.
        """
        if self.loop.is_running() and self.still_for() < patience:
            try:
                self.run(farewell()).result(patience)
            except Exception as error:
                log.warning("close() in the %s has failed, or was not done within %g s: %s", self._thread.name, patience, describe(error))
        self.end()
        self._thread.join(patience)

    def end(self) -> None:
        """Cancel everything under way and stop the loop, as soon as it runs."""
        if self.loop.is_running():
            self.run(self._end())

    async def _end(self) -> None:
        self._at_end()
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
