"""An engine in a worker process: how messages and weights come there."""

from __future__ import annotations

from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle

from lightrl.parts.engine import RolloutEngine
from lightrl.rollout.engine_messages import Outline, Update
from lightrl.rollout.engine_worker import serve_engine
from lightrl.rollout.shared_weights import MappedWeights, SharedWeights


class EngineServant:
    """Serves an engine to the training process; see `lightrl.workers.calls.Servant`."""

    def __init__(self, engine: RolloutEngine) -> None:
        """
        Args:
            engine: not started.
        """
        self._engine = engine

    def serve(self, connection: Connection) -> None:
        """Start the engine, obey messages until the last one, and close it."""
        serve_engine(self._engine, PipeConnection(connection))


class PipeConnection:
    """Messages through a socket; see `lightrl.EngineConnection`. The descriptor of the weights' block follows an outline."""

    def __init__(self, connection: Connection) -> None:
        """
        Args:
            connection: to the training process.
        """
        self._connection = connection
        self._block: MappedWeights | None = None

    def send(self, message: object) -> None:
        """Send a message."""
        self._connection.send(message)

    def receive(self) -> object:
        """The next message; an update has its weights.

        Raises:
            EOFError: the training process has ended.
        """
        message: object = self._connection.recv()
        if isinstance(message, Outline):
            places = self._connection.recv()
            self._block = MappedWeights(recv_handle(self._connection), places)
        elif isinstance(message, Update) and isinstance(message.weights, SharedWeights):
            return replace(message, weights=replace(message.weights, block=self._block))
        return message
