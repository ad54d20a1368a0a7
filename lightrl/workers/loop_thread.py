"""An event loop in a thread of its own, whose standstill is noticed."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

CHECK_S = 0.1
"""Seconds between two checks that the loop still runs."""


class LoopThread:
    """A thread that runs an event loop until it is ended."""

    def __init__(self, name: str, at_end: Callable[[], None]) -> None:
        """
        Args:
            name: of the thread.
            at_end: called in the loop before everything under way is cancelled.
        """
        self.loop, self._at_end = asyncio.new_event_loop(), at_end
        self._ran_at = time.monotonic()
        self.loop.call_soon(self._note)
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
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
            self.run(farewell()).result(patience)
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
        await asyncio.gather(*others, return_exceptions=True)
        self.loop.call_soon(self.loop.stop)

    def _note(self) -> None:
        self._ran_at = time.monotonic()
        self.loop.call_later(CHECK_S, self._note)
