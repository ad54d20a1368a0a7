"""The training process's way to one worker that hosts an engine, wherever the worker lives."""

from __future__ import annotations

from abc import ABC, abstractmethod


class FallenWorkerError(Exception):
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
            FallenWorkerError: the worker is known to have ended, or takes no messages.
        """

    @abstractmethod
    def receive(self) -> object:
        """The next message; called once `EngineHost.ready` has named this link.

        Raises:
            FallenWorkerError: the worker has ended, or stopped in the middle of a message.
        """

    @abstractmethod
    def end(self) -> str:
        """Kill the worker if it still runs.

        Returns:
            How it had ended before; nothing if it still ran, or if nobody knows.
        """

    @abstractmethod
    def finish(self, patience_s: float) -> None:
        """Wait until a worker that was told to end has ended, and kill it if it has not by then.

        Args:
            patience_s: seconds.
        """

    def late(self, why: str) -> FallenWorkerError:
        """End the worker, and say why."""
        # whatever killed it before is the better reason
        ended = self.end()
        return FallenWorkerError(f"{self.name} {why}{f'; it had ended by {ended}' if ended else ''}")
