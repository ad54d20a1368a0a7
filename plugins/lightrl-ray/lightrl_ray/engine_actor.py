"""The program of a Ray actor: an engine that takes messages and gives messages, and the weights that it reads."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import ray
from torch import Tensor

from lightrl import RolloutEngine, serve_engine

if TYPE_CHECKING:
    from lightrl import PackedWeights


LAST = None
"""Stands behind the last message."""


class EngineActor:
    """Runs an engine in a thread, so that messages come and go while it decodes.

    For the engine it is the connection to the training process; see `lightrl.EngineConnection`.
    """

    def __init__(self, engine: RolloutEngine) -> None:
        self._to: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._from: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._early: dict[int, object] = {}
        self._next, self._lock = 0, threading.Lock()
        threading.Thread(target=self._serve, args=(engine,), name="engine", daemon=True).start()

    def take(self, number: int, message: object) -> None:
        """Take a message of the training process; numbered from 0, since Ray may bring them in another order."""
        with self._lock:
            self._early[number] = message
            while self._next in self._early:
                self._to.put(self._early.pop(self._next))
                self._next += 1

    def give(self) -> list[object]:
        """Wait for messages of the engine, and give all that there are; behind the last one stands `LAST`."""
        found = [self._from.get()]
        while not self._from.empty():
            found.append(self._from.get())
        return found

    def send(self, message: object) -> None:
        """Lay out a message for the training process."""
        self._from.put(message)

    def receive(self) -> object:
        """The next message of the training process; Ray ends the actor when that process has ended."""
        return self._to.get()

    def _serve(self, engine: RolloutEngine) -> None:
        try:
            serve_engine(engine, self)
        finally:
            self.send(LAST)


@dataclass(frozen=True)
class StoredWeights:
    """Names the blocks that hold the weights; each node fetches a block once, for all of its actors."""

    whole: ray.ObjectRef[PackedWeights]
    """The last block with every tensor."""
    latest: ray.ObjectRef[PackedWeights]
    """Those that may have changed since; maybe the same block."""

    def tensors(self, every: bool) -> Iterator[tuple[str, Tensor]]:
        """Tensors by their names; what comes again replaces what came before.

        They show memory that all actors of a node share, and that torch would let them change: copy them at once.

        Args:
            every: all of the policy's; False: those that may have changed.
        """
        if every and self.whole != self.latest:
            yield from ray.get(self.whole).tensors()
        yield from ray.get(self.latest).tensors()
