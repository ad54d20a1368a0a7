"""Requests that are on their way, in the event loop in which they wait, and the results that have come."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Collection, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from lightrl import Request, Result

T = TypeVar("T")

PATIENCE_S = 10.0
"""Seconds that a loop gets to end what it is at."""


class EventLoop:
    """Runs coroutines until it is closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lightrl-servers", daemon=True)
        self._thread.start()

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine beside the others; a future that is cancelled cancels it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, which has a time limit of its own; an interrupt cancels it."""
        future = self.begin(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel everything under way, and end the thread."""
        self.begin(self._end()).result(PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        # looking up the names of hosts has started threads
        await self._loop.shutdown_default_executor()


class UnderWay:
    """Sends requests at once, and gives results as they come."""

    def __init__(self, loop: EventLoop, limit_s: float) -> None:
        """Requests wait in the loop; after `limit_s` without a result, results count as lost."""
        self._loop, self._limit_s = loop, limit_s
        self._asked: dict[Future[Result], Request] = {}
        self._done: queue.SimpleQueue[Future[Result]] = queue.SimpleQueue()

    def __bool__(self) -> bool:
        return bool(self._asked)

    def begin(self, request: Request, answer: Coroutine[Any, Any, Result]) -> None:
        """Send a request."""
        future = self._loop.begin(answer)
        self._asked[future] = request
        future.add_done_callback(self._done.put)

    def results(self) -> list[Result]:
        """The results that have come, at least one if a request is under way; a RuntimeError if it gives none or fails."""
        found: list[Result] = []
        while self._asked and not found:
            found += self._taken(self._wait())
            while not self._done.empty():
                found += self._taken(self._done.get())
        return found

    def forget(self, episodes: Collection[int]) -> None:
        """Drop requests of these episodes; a server stops working at them."""
        for future in [future for future, request in self._asked.items() if request.episode in episodes]:
            del self._asked[future]
            future.cancel()

    def _taken(self, future: Future[Result]) -> list[Result]:
        # what was forgotten comes too
        return [] if self._asked.pop(future, None) is None else [future.result()]

    def _wait(self) -> Future[Result]:
        try:
            return self._done.get(timeout=self._limit_s)
        except queue.Empty:
            raise RuntimeError(f"no server gave a result within {self._limit_s:g} s; {len(self._asked)} requests wait") from None
