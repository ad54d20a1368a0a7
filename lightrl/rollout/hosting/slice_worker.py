"""The training process's end of one engine in a worker."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

from lightrl.parts.engine import Request, Result
from lightrl.rollout.hosting.engine_host import WorkerLink
from lightrl.rollout.hosting.engine_messages import Ask, Failed, Forget, Found, Update, Updated

NUMBERS = count()
"""Of all requests that are sent to workers."""


class FailedEngineError(Exception):
    """The engine in a worker has raised."""


@dataclass
class _Asked:
    """A slice that a worker works on."""

    requests: list[Request]
    """As they were sent."""
    wanted: dict[int, int]
    """Those without a result: the number that was sent, and that of the request."""

    def without(self, episodes: frozenset[int]) -> _Asked:
        """The rest of the slice when episodes are dropped."""
        left = [request for request in self.requests if request.episode not in episodes]
        return _Asked(left, {request.id: self.wanted[request.id] for request in left if request.id in self.wanted})


class SliceWorker:
    """A worker with an engine: takes slices, and gives results within a time limit.

    Each method raises a `FailedWorkerError` if the worker has ended or takes no messages, and those that take an answer a
    `FailedEngineError` if the engine in it has raised.
    """

    def __init__(self, link: WorkerLink, timeout_s: float) -> None:
        """`timeout_s`: seconds in which it must give the next result."""
        self.link, self.timeout_s = link, timeout_s
        self._asked: list[_Asked] = []
        self.updating = False
        """It is to take weights, and has not answered."""
        self._since = time.monotonic()

    @property
    def slices(self) -> int:
        """The slices that it works on."""
        return len(self._asked)

    @property
    def left_s(self) -> float:
        """Seconds until the next result is late."""
        return self._since + self.timeout_s - time.monotonic()

    def update(self, update: Update) -> None:
        """Have it copy weights; `updated` takes its answer."""
        self.updating = True
        self.link.send(update)

    def updated(self) -> None:
        """Take its answer to an update; called once there is one."""
        answer = self._receive()
        self.updating = False
        if not isinstance(answer, Updated):
            raise self.link.timed_out(f"answered an update of the weights with {type(answer).__name__}")

    def ask(self, requests: Sequence[Request]) -> None:
        """Have it continue requests, decoded together."""
        # numbers that are free to be used again may still be under way here
        sent = [replace(request, id=next(NUMBERS)) for request in requests]
        if not self._asked:
            self._since = time.monotonic()
        self._asked.append(_Asked(sent, {own.id: request.id for own, request in zip(sent, requests, strict=True)}))
        self.link.send(Ask(sent))

    def take_over(self, failed: SliceWorker) -> None:
        """Make the requests of a worker that has failed its own; they are sent by `ask_again`."""
        self._asked = failed._asked

    def ask_again(self) -> None:
        """Have it continue all of its requests: slices as they were, since the rows beside a row decide how it is rounded."""
        self._since = time.monotonic()
        for asked in self._asked:
            self.link.send(Ask(asked.requests))

    def forget(self, episodes: frozenset[int]) -> None:
        """Drop episodes, and their requests under way."""
        self._asked = [left for asked in self._asked if (left := asked.without(episodes)).wanted]
        # the run ends if it has failed for good
        if self.link.alive:
            self.link.send(Forget(episodes))

    def results(self) -> list[Result]:
        """The results in its next message that are still wanted; called once there is one."""
        answer = self._receive()
        self._since = time.monotonic()
        if not isinstance(answer, Found):
            return []
        # nobody wants results of requests that were forgotten while they were under way, or that were answered before a worker failed
        numbers = {own: number for asked in self._asked for own, number in asked.wanted.items()}
        found = [replace(result, id=numbers[result.id]) for result in answer.results if result.id in numbers]
        for asked in self._asked:
            for result in answer.results:
                asked.wanted.pop(result.id, None)
        self._asked = [asked for asked in self._asked if asked.wanted]
        return found

    def _receive(self) -> object:
        message = self.link.receive()
        if isinstance(message, Failed):
            self.link.end()
            raise FailedEngineError(message.why)
        return message
