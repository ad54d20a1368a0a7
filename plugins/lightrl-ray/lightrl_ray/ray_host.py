"""Ray actors as workers of an engine, and the way of the training process to each of them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError
from torch import Tensor

from lightrl import EngineHost, FailedWorkerError, PackedWeights, RolloutEngine, WorkerLink
from lightrl_ray.cluster import Cluster
from lightrl_ray.engine_actor import LAST, EngineActor, StoredWeights


class ActorLink(WorkerLink):
    """Messages as calls of an actor: one for each that is sent, and one under way that waits for the next to come back."""

    def __init__(self, actor: Any, cluster: Cluster, timeout_s: float) -> None:
        """Of an `EngineActor` that has just been made, and may still wait for its resources; a message comes through in `timeout_s`."""
        self._actor, self._cluster, self._timeout_s = actor, cluster, timeout_s
        self.name = f"Ray actor {actor._actor_id.hex()[:12]}"
        self._alive, self._sent = True, 0
        self._received = deque[object]()
        self._taken: list[ray.ObjectRef[None]] = []
        """Calls that bring messages, until they are over."""
        self._started = actor.__ray_ready__.remote()
        self._given: ray.ObjectRef[list[object]] = actor.give.remote()

    @property
    def alive(self) -> bool:
        return self._alive

    @property
    def waiting(self) -> list[ray.ObjectRef[Any]]:
        """Calls that something may come of: the answer, and what could not be taken."""
        return [self._given, *self._taken]

    def settle(self, over: set[ray.ObjectRef[Any]]) -> bool:
        """There is something to receive: these calls are over, of any actor; a RuntimeError if a message cannot be read there."""
        for ref in [ref for ref in self._taken if ref in over]:
            self._taken.remove(ref)
            self._expect_taken(ref)
        return bool(self._received) or self._given in over

    def send(self, message: object) -> None:
        if not self._alive:
            raise FailedWorkerError(f"{self.name} has ended")
        self._taken.append(self._actor.take.remote(self._sent, message))
        self._sent += 1

    def receive(self) -> object:
        if not self._received:
            try:
                self._received.extend(ray.get(self._given, timeout=self._timeout_s))
            except GetTimeoutError:
                raise self.timed_out(f"stopped in the middle of an answer for {self._timeout_s:g} s") from None
            except RayActorError as error:
                self.end()
                if error.actor_init_failed:
                    raise RuntimeError(f"{self.name} cannot load its engine: {_in_one_line(error)}") from None
                raise FailedWorkerError(f"{self.name} died: {_in_one_line(error)}") from None
            except RayError as error:
                self.end()
                raise FailedWorkerError(f"{self.name} gave no answer: {_in_one_line(error)}") from None
            if self._received[-1] is not LAST:
                self._given = self._actor.give.remote()
        message = self._received.popleft()
        if message is LAST:
            self.end()
            raise FailedWorkerError(f"{self.name} has ended")
        return message

    def end(self) -> str:
        if self._alive:
            self._alive = False
            ray.kill(self._actor, no_restart=True)
        return ""

    def timed_out(self, why: str) -> FailedWorkerError:
        """End the actor, and say why; a RuntimeError if it never started."""
        started, _ = ray.wait([self._started], timeout=0)
        if self._alive and not started:
            self.end()
            raise RuntimeError(
                f"{self.name} did not start, and {why}: it needs {self._cluster.needs()}, and the cluster has {self._cluster.has()}. "
                "Add nodes, or take fewer actors or resources"
            )
        return super().timed_out(why)

    def finish(self, patience_s: float) -> None:
        ends = time.monotonic() + patience_s
        while self._alive and ray.wait([self._given], timeout=max(0.0, ends - time.monotonic()))[0]:
            try:
                *_, last = ray.get(self._given, timeout=patience_s)
            except RayError:
                # it has ended, and what it had to say is of no use any more
                break
            if last is LAST:
                break
            self._given = self._actor.give.remote()
        self.end()

    def _expect_taken(self, ref: ray.ObjectRef[None]) -> None:
        try:
            ray.get(ref, timeout=self._timeout_s)
        except RayActorError:
            # the answer that is waited for tells of its death
            return
        except RayError as error:
            self.end()
            raise RuntimeError(f"{self.name} cannot read a message: {_in_one_line(error)}") from None


def _in_one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


class RayHost(EngineHost):
    """Makes actors; Ray itself restarts none and repeats nothing, since a new actor has no weights."""

    worker, workers = "Ray actor", "Ray actors"

    def __init__(self, engine: RolloutEngine, cluster: Cluster, resources: dict[str, float], timeout_s: float) -> None:
        """Each actor gets a copy of the engine and these resources; the cluster is connected by `start`."""
        self._engine, self._cluster, self._timeout_s = engine, cluster, timeout_s
        self._stored: ray.ObjectRef[RolloutEngine] | None = None
        others = {name: amount for name, amount in resources.items() if name not in ("CPU", "GPU", "memory")}
        self._options = {
            "num_cpus": resources.get("CPU", 0.0),
            "num_gpus": resources.get("GPU", 0.0),
            "memory": resources.get("memory"),
            "resources": others,
            "max_restarts": 0,
            "max_task_retries": 0,
            # one call waits for messages of the engine while others bring some to it
            "max_concurrency": 2,
        }
        self._whole: ray.ObjectRef[PackedWeights] | None = None
        """The last block with every tensor of the policy."""
        self._known: PackedWeights | None = None
        """Every tensor of the policy, without its values."""

    def start(self) -> None:
        """Start Ray, or connect to the cluster; a RuntimeError if neither works, or the engine cannot be pickled."""
        self._cluster.connect()
        try:
            self._stored = ray.put(self._engine)
        except Exception as error:
            # Ray puts a page of advice around the reason
            reason = error.__cause__ or error
            raise RuntimeError(
                f"{type(self._engine).__name__} cannot be sent to a Ray actor ({reason}): define it at the top of a module and keep "
                "what cannot be pickled out of it"
            ) from error

    def close(self) -> None:
        self._whole = self._stored = None
        self._cluster.close()

    def start_worker(self) -> WorkerLink:
        actor = ray.remote(EngineActor).options(**self._options).remote(self._stored)
        return ActorLink(actor, self._cluster, self._timeout_s)

    def publish(self, tensors: Iterable[tuple[str, Tensor]], whole: bool) -> StoredWeights:
        """Put weights into the object store as one block."""
        packed = PackedWeights.of(tensors, known=None if whole else self._known)
        block = ray.put(packed)
        if whole or self._known is None:
            self._known = packed.without_values()
        if self._whole is None or len(packed.places) == len(self._known.places):
            # nothing of the block before is wanted any more
            self._whole = block
        return StoredWeights(self._whole, block)

    def ready(self, links: Sequence[WorkerLink], seconds: float) -> Collection[WorkerLink]:
        own = [link for link in links if isinstance(link, ActorLink)]
        ends = time.monotonic() + seconds
        over: set[ray.ObjectRef[Any]] = set()
        while True:
            if found := [link for link in own if link.settle(over)]:
                return found
            left = max(0.0, ends - time.monotonic())
            done, _ = ray.wait([ref for link in own for ref in link.waiting], timeout=left, fetch_local=False)
            if not done:
                return []
            over = set(done)
