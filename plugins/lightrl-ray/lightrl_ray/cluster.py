"""The connection to Ray: a cluster on this machine that ends with the run, or one that runs already."""

import logging
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

AFTER_TRAINER = Path(__file__).with_name("after_trainer.py")
"""Ends what is left of Ray if this process is killed."""
START_S = 240
"""Seconds that Ray's processes may take to start: on a busy machine its own 30 are too few."""
SETTINGS = {
    "RAY_raylet_start_wait_time_s": str(START_S),
    "RAY_agent_register_timeout_ms": str(1000 * START_S),
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray gives its workers 15: on a busy machine they would hardly decode
    "RAY_worker_niceness": "0",
}
"""Ray reads these from the environment when it is imported and when it starts."""


class Cluster:
    """A place for a number of actors, which all have the same needs."""

    _users: ClassVar[int] = 0
    """Clusters of this process that use the connection which the first of them has made: Ray has one for each process."""
    _after: ClassVar[subprocess.Popen[bytes] | None] = None
    """The program that waits for the end of this process, if Ray was started here."""

    def __init__(self, address: str | None, actors: int, resources: Mapping[str, float]) -> None:
        """At the address of a running cluster, or, None, one that is started on this machine; with the resources of each actor."""
        self._address, self._actors, self._resources = address, actors, resources
        self._connected = False

    def connect(self) -> None:
        """Start Ray or connect to the cluster, or raise a RuntimeError; a connection that is there is used, and left alone by `close`."""
        with _environment(SETTINGS if self._address else {**SETTINGS, "RAY_AUTH_MODE": "token"}), _own_sigterm():
            import ray

            if self._connected or (ray.is_initialized() and not Cluster._users):
                return
            self._connected = True
            Cluster._users += 1
            if not ray.is_initialized():
                self._begin()
        if Cluster._after is not None:
            self._refuse_too_small()

    def close(self) -> None:
        """End what `connect` started, or the connection to a cluster, which goes on; nothing else, and only once it has no other user."""
        if self._connected:
            import ray

            self._connected = False
            Cluster._users -= 1
            if not Cluster._users:
                ray.shutdown()
                if Cluster._after is not None:
                    Cluster._after.terminate()
                    Cluster._after.wait()
                    Cluster._after = None

    def needs(self) -> str:
        """The resources of one actor, in words."""
        return _listed(self._resources)

    def has(self) -> str:
        """The resources of the cluster and what is free of them, in words."""
        import ray

        every = (ray.cluster_resources(), ray.available_resources())
        total, free = (_listed({name: found.get(name, 0.0) for name in self._resources}) for found in every)
        return f"{total} in all, of which {free} are free"

    def _begin(self) -> None:
        """Start Ray, or connect to a cluster that runs; whatever fails, nothing is left."""
        import ray

        try:
            if self._address is None:
                self._start()
            else:
                ray.init(address=self._address, logging_level=logging.WARNING)
        except Exception as error:
            self.close()
            where = "be started on this machine" if self._address is None else f"be reached at {self._address}"
            raise RuntimeError(f"Ray could not {where}: {type(error).__name__}: {error}") from error

    def _start(self) -> None:
        import ray

        own = {name: amount * self._actors for name, amount in self._resources.items() if name not in ("CPU", "GPU", "memory")}
        cpus = max(1, math.ceil(self._actors * self._resources.get("CPU", 0.0)))
        # a number of CPUs is what Ray hands out, whatever the machine has
        ray.init(address="local", num_cpus=cpus, resources=own, include_dashboard=False, logging_level=logging.WARNING)
        # in a session of its own, so that Ctrl-C does not end it
        Cluster._after = subprocess.Popen([sys.executable, AFTER_TRAINER, str(os.getpid())], start_new_session=True)

    def _refuse_too_small(self) -> None:
        import ray

        total = ray.cluster_resources()
        if any(total.get(name, 0.0) < amount * self._actors for name, amount in self._resources.items()):
            raise RuntimeError(
                f"{self._actors} times {self.needs()} for an actor does not fit on this machine: Ray has {self.has()}. "
                "Take fewer actors or resources, or name the address of a larger cluster"
            )


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Within, the environment has these values, where it does not say otherwise already."""
    added = {name: value for name, value in values.items() if name not in os.environ or name == "RAY_AUTH_MODE"}
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Keep the handler of SIGTERM as it was before: Ray would end the process at once, and a run ends after its rollout."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _listed(resources: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {amount:g}" for name, amount in resources.items() if amount) or "nothing"
