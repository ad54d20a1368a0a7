"""Ray actors as workers of an engine."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import ray
from torch import Tensor

from lightrl import EngineHost, PackedWeights, RolloutEngine, WorkerLink
from lightrl_ray.actor_link import ActorLink
from lightrl_ray.cluster import Cluster
from lightrl_ray.engine_actor import EngineActor, StoredWeights


class RayHost(EngineHost):
    """Makes actors; Ray itself restarts none and repeats nothing, since a new actor has no weights."""

    worker, workers = "Ray actor", "Ray actors"

    def __init__(self, engine: RolloutEngine, cluster: Cluster, resources: dict[str, float], timeout_s: float) -> None:
        """
        Args:
            engine: that each actor gets a copy of.
            cluster: where actors live; it is connected by `start`.
            resources: of each actor.
            timeout_s: seconds in which a message must have come through.
        """
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
        """Start Ray, or connect to the cluster.

        Raises:
            RuntimeError: neither works, or the engine cannot be pickled.
        """
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
