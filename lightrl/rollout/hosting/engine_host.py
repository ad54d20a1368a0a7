"""Where the workers of an engine live, and the way to each of them: processes of this machine, or others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol

from torch import Tensor


class FailedWorkerError(Exception):
    """A worker has died, or did not answer in time; its message says which and why."""


class WorkerLink(ABC):
    """Carries messages to one worker and back, in their order, and can end it."""

    name: str
    """Of the worker, in messages, such as `process 4711`."""

    @property
    @abstractmethod
    def alive(self) -> bool:
        """It was not found dead, and was not ended."""

    @abstractmethod
    def send(self, message: object) -> None:
        """Send a message, without waiting until it is obeyed.

        A worker that has just ended may still have said something: `receive` gives that first, and then tells of the end.

        Args:
            message: can be pickled.

        Raises:
            FailedWorkerError: the worker is known to have ended, or takes no messages.
        """

    @abstractmethod
    def receive(self) -> object:
        """The next message; called once `EngineHost.ready` has named this link.

        Raises:
            FailedWorkerError: the worker has ended, or stopped in the middle of a message.
        """

    @abstractmethod
    def end(self) -> str:
        """Kill the worker if it still runs; how it had ended before, or nothing if it still ran or that is not known."""

    @abstractmethod
    def finish(self, patience_s: float) -> None:
        """Wait until a worker that is to end has ended, and kill it if it has not by then. `patience_s`: seconds."""

    def timed_out(self, why: str) -> FailedWorkerError:
        """End the worker, and say why."""
        # whatever killed it before is the better reason
        ended = self.end()
        return FailedWorkerError(f"{self.name} {why}{f'; it had ended by {ended}' if ended else ''}")


class PublishedWeights(Protocol):
    """The policy's weights as a worker finds them; it is pickled and travels in a message."""

    def tensors(self, every: bool) -> Iterator[tuple[str, Tensor]]:
        """Tensors by their names in the trainer's own modules, each to be copied at once.

        Args:
            every: all of the policy's; False: those that may have changed since the update before.
        """


class EngineHost(ABC):
    """Starts workers, and brings them messages and weights.

    A worker runs `serve_engine` with a copy of the engine.
    """

    worker = "worker"
    """One of them, in messages."""
    workers = "workers"
    """Several of them, in messages."""

    def start(self) -> None:  # noqa: B027 - not every host has anything to start
        """Get ready to start workers; nothing is started by `__init__`."""

    def close(self) -> None:  # noqa: B027 - nor to give back
        """Give back everything but the workers, which were ended before; nothing if nothing was started."""

    @abstractmethod
    def start_worker(self) -> WorkerLink:
        """Start one more worker, and do not wait until it is ready; a RuntimeError if none can be started."""

    @abstractmethod
    def publish(self, tensors: Iterable[tuple[str, Tensor]], whole: bool) -> PublishedWeights:
        """Copy weights to where every worker finds them, also one that starts later.

        Args:
            tensors: to be copied one at a time.
            whole: they are all of a policy; False: those that may have changed since.

        Raises:
            ValueError: a tensor differs in dtype or shape from the whole policy's, or is new.
        """

    @abstractmethod
    def ready(self, links: Sequence[WorkerLink], seconds: float) -> Collection[WorkerLink]:
        """Wait for a message of one of these workers, or for its death: those with either.

        Args:
            links: of workers of this host.
            seconds: to wait; none if nothing came.
        """
