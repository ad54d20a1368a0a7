"""An engine in processes of its own."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le

from lightrl.parts.engine import RolloutEngine
from lightrl.ranges import Natural, Positive, Workers
from lightrl.rollout.hosting.engine_host import EngineHost
from lightrl.rollout.hosting.hosted_engine import HostedEngine
from lightrl.rollout.hosting.process_host import ProcessHost


class ProcessEngine(HostedEngine):
    """Hosts any engine in worker processes on this machine, each with a model of its own.

    Requests are cut into slices of at most `slice_rows` of the engine, and each slice is decoded by one worker. Which requests share a
    slice depends on nothing but the requests, so `TransformersEngine` gives the same tokens for any number of workers, and the same as
    without any. A worker that dies or hangs is replaced and asked again.
    """

    def __init__(
        self,
        engine: RolloutEngine,
        workers: Workers = 1,
        timeout_s: Positive = 600.0,
        max_replacements: Natural = 10,
        threads: Annotated[int, Ge(1), Le(4096)] | None = None,
        devices: list[str] | None = None,
    ) -> None:
        """
        Args:
            engine: that each worker has a copy of; with several workers it needs `slice_rows`.
            workers: processes, on every rank.
            timeout_s: seconds in which a worker must take new weights, and give the next result. It has as long to start, and 300 at
                least.
            max_replacements: workers that may be replaced; when one more fails, the run ends.
            threads: of each worker on the CPU; null: as many as the trainer has, so that numbers are rounded as there.
            devices: of the workers, in turn, such as `cuda:1`: those of the first rank of a machine, then those of the next one; null: that
                of the rank.

        Raises:
            ValueError: an argument outside its range, or one that leaves workers without work.
        """
        super().__init__(engine, workers, timeout_s, max_replacements, threads, devices or [])
        self.workers, self.devices = workers, list(devices or [])

    def host(self, start_s: float) -> EngineHost:
        return ProcessHost(self.engine, self.timeout_s, start_s)
