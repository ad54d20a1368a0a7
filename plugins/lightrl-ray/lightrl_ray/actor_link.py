"""The training process's way to one engine in a Ray actor."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError

from lightrl import FailedWorkerError, WorkerLink
from lightrl_ray.cluster import Cluster
from lightrl_ray.engine_actor import LAST


class ActorLink(WorkerLink):
    """Messages as calls of an actor: one for each that is sent, and one under way that waits for the next to come back."""

    def __init__(self, actor: Any, cluster: Cluster, timeout_s: float) -> None:
        """
        Args:
            actor: handle of an `EngineActor` that has just been made, and may still wait for its resources.
            cluster: where it lives.
            timeout_s: seconds in which a message must have come through.
        """
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
        """There is something to receive.

        Args:
            over: calls that are over, of this actor or others.

        Raises:
            RuntimeError: a message cannot be read there.
        """
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
        """End the actor, and say why.

        Raises:
            RuntimeError: it never started.
        """
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
