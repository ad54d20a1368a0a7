"""The life of an engine in a worker: it takes messages, decodes, and sends results as they come."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from typing import Protocol

import torch

from lightrl.parts.engine import RolloutEngine
from lightrl.policy.policy import Policy
from lightrl.policy.weights import TrainerWeights
from lightrl.rollout.hosting.engine_messages import Ask, End, Failed, Forget, Found, Outline, Update, Updated
from lightrl.rollout.hosting.policy_outline import copy_into
from lightrl.workers.calls import describe


class EngineConnection(Protocol):
    """A worker's way to the training process: messages come and go in their order."""

    def send(self, message: object) -> None:
        """Send a message; an OSError if the other side is gone."""

    def receive(self) -> object:
        """Wait for the next message; called by a thread of its own.

        Raises:
            EOFError: the other side is gone.
            OSError: as for EOFError.
        """


def serve_engine(engine: RolloutEngine, connection: EngineConnection) -> None:
    """Start an engine, obey the messages of the training process until the last one, and close the engine.

    Args:
        engine: not started.
        connection: to the training process, to which an exception is sent.
    """
    try:
        engine.start()
        EngineWorker(engine, connection).run()
    except Exception as error:
        # the training process may be gone, and with it whoever wants to know
        with contextlib.suppress(OSError):
            connection.send(Failed(describe(error)))
    finally:
        engine.close()


class EngineWorker:
    """One engine with a model of its own, and the requests that it works on."""

    def __init__(self, engine: RolloutEngine, connection: EngineConnection) -> None:
        self._engine, self._connection = engine, connection
        self._messages: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._outline: Outline | None = None
        self._policy: Policy | None = None
        self._under_way: dict[int, int] = {}
        """The episode of each request under way."""

    def run(self) -> None:
        """Obey messages and send results until the last message."""
        # messages are read while the engine decodes: who sends them never waits for it, and the end of the other side is seen at once
        threading.Thread(target=self._read, name="messages", daemon=True).start()
        while True:
            while self._messages.qsize() or not self._under_way:
                message = self._messages.get()
                if isinstance(message, End):
                    return
                if isinstance(message, Exception):
                    raise message
                self._obey(message)
            self._decode()

    def _read(self) -> None:
        while True:
            try:
                self._messages.put(self._connection.receive())
            except (EOFError, OSError):
                # nobody is left to send results to
                os._exit(0)
            except Exception as error:
                # a message that cannot be read here, such as one with a class of a package that is missing
                self._messages.put(error)
                return

    def _obey(self, message: object) -> None:
        if isinstance(message, Outline):
            torch.set_num_threads(message.threads)
            torch.set_float32_matmul_precision(message.policy.matmul)
            if (device := torch.device(message.device)).type != "cpu" and device.index is not None:
                # else memory that is pinned would take a context on the first device, too
                torch.get_device_module(device).set_device(device)
            self._outline, self._policy = message, None
        elif isinstance(message, Update):
            self._update(message)
            self._connection.send(Updated(message.version))
        elif isinstance(message, Ask):
            self._under_way |= {request.id: request.episode for request in message.requests}
            self._engine.submit(message.requests)
        elif isinstance(message, Forget):
            self._under_way = {number: episode for number, episode in self._under_way.items() if episode not in message.episodes}
            self._engine.forget(message.episodes)

    def _update(self, update: Update) -> None:
        outline = self._known()
        if self._policy is None:
            self._policy = outline.policy.build(update.weights.tensors(every=True), torch.device(outline.device))
        else:
            copy_into(self._policy.model, update.weights.tensors(every=False), every=False)
        self._engine.update_weights(TrainerWeights(self._policy), update.version)

    def _decode(self) -> None:
        outline = self._known()
        with outline.policy.computing(torch.device(outline.device)):
            results = self._engine.results()
        if not results:
            name = type(self._engine).__name__
            raise RuntimeError(f"{name} has no results left, and {len(self._under_way)} requests were never answered")
        for result in results:
            del self._under_way[result.id]
        self._connection.send(Found(results))
        # an engine may clear away its last batch when it is asked for more
        if not self._under_way and (further := self._engine.results()):
            name = type(self._engine).__name__
            raise RuntimeError(f"{name} has results of requests {[result.id for result in further]}, which are not under way")

    def _known(self) -> Outline:
        if self._outline is None:
            raise RuntimeError("the worker was asked before it knew the policy")
        return self._outline
