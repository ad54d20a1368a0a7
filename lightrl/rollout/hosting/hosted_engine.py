"""An engine in workers beside the trainer, wherever they live."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Collection, Sequence

from lightrl.parts.engine import PolicyWeights, Request, Result, RolloutEngine
from lightrl.rollout.decode.slices import Slice, Slices
from lightrl.rollout.hosting.engine_host import EngineHost
from lightrl.rollout.hosting.engine_pool import EnginePool, start_limit

DEPTH = 2
"""Slices that a worker has at a time: one that it decodes, and one so that it need not wait for the next."""


class HostedEngine(RolloutEngine):
    """Hosts any engine in workers, each with a model of its own; a subclass says where they live.

    Requests are cut into slices of at most `slice_rows` of the engine, and each slice is decoded by one worker. Which requests share a
    slice depends on nothing but the requests, so `TransformersEngine` gives the same tokens for any number of workers, and the same as
    without any. A worker that dies or hangs is replaced and asked again.
    """

    many = "workers"
    """The name of the argument that says how many workers there are."""

    def __init__(
        self, engine: RolloutEngine, workers: int, timeout_s: float, max_replacements: int, threads: int | None, devices: Sequence[str] = ()
    ) -> None:
        """
        Args:
            engine: that each worker has a copy of; with several workers it needs `slice_rows`.
            workers: how many, on every rank.
            timeout_s: seconds in which a worker must take new weights, and give the next result. It has as long to start, and 300 at
                least.
            max_replacements: workers that may be replaced; when one more fails, the run ends.
            threads: of each worker on the CPU; None: as many as the trainer has, so that numbers are rounded as there.
            devices: of the workers of all ranks of a machine, in turn; none: that of the rank.

        Raises:
            ValueError: an argument outside its range, or one that leaves workers without work.
        """
        ranges = {f"{self.many} >= 1": workers >= 1, "timeout_s > 0": timeout_s > 0, "max_replacements >= 0": max_replacements >= 0}
        ranges["threads >= 1 or null"] = threads is None or threads >= 1
        own = type(self).__name__
        if wrong := [rule for rule, kept in ranges.items() if not kept]:
            raise ValueError(
                f"{own} needs {' and '.join(wrong)}, got {self.many}={workers}, timeout_s={timeout_s}, "
                f"max_replacements={max_replacements}, threads={threads}"
            )
        if engine.rests:
            raise ValueError(f"{own} has workers, and {type(engine).__name__} gives its memory back between rollouts: use it without {own}")
        if workers > 1 and engine.slice_rows is None:
            name = type(engine).__name__
            raise ValueError(
                f"{own} has {workers} {self.many}, and {name} has all rows of a call in one slice (slice_rows: null), so that one of them "
                f"would have them all: set slice_rows of {name}, for example to the rows of a rollout divided by {workers}"
            )
        self.engine, self.timeout_s, self.max_replacements = engine, timeout_s, max_replacements
        self.threads, self._devices, self._number = threads, list(devices), workers
        self.sampling, self.seed, self.slice_rows = engine.sampling, engine.seed, engine.slice_rows
        self.exact_logprobs, self.logprob_tolerance, self.probed_at = engine.exact_logprobs, engine.logprob_tolerance, engine.probed_at
        self._pool: EnginePool | None = None
        self._slices, self._waiting = Slices(engine.slice_rows), deque[Slice]()
        self._homes: dict[int, int] = {}
        """Of each episode that goes on, the worker that has its keys and values."""
        self._counted = 0

    @abstractmethod
    def host(self, start_s: float) -> EngineHost:
        """Where the workers live; nothing is started yet. `start_s`: seconds that a worker may take to start."""

    def start(self) -> None:
        """Get ready to start workers, which begin with the first weights.

        Raises:
            RuntimeError: the host cannot be reached, or the engine cannot be pickled.
        """
        if self._pool is None:
            host, name = self.host(start_limit(self.timeout_s)), type(self.engine).__name__
            self._pool = EnginePool(name, host, self._number, self.timeout_s, self.max_replacements, self.threads, self._devices)
            self._counted = 0
            host.start()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None
        self._waiting.clear()
        self._begin_anew()

    def update_weights(self, weights: PolicyWeights, version: int) -> None:
        """Copy the weights to where the workers find them, and have each take them from there.

        Raises:
            RuntimeError: requests are under way, the engine was not started or has raised, or more workers failed than may be replaced.
            ValueError: the policy's tensors are others than at the first update.
        """
        if self._pool is None:
            raise RuntimeError(f"{type(self).__name__}.update_weights was called before start()")
        if self._waiting or any(self._pool.loads):
            raise RuntimeError(f"{type(self).__name__}.update_weights was called while requests are under way")
        self._begin_anew()
        self._pool.update(weights, version)

    def submit(self, requests: Sequence[Request]) -> None:
        """Take requests, and hand slices of them to workers that are free.

        Raises:
            RuntimeError: `update_weights` was never called, or more workers failed than may be replaced.
        """
        if self._pool is None or not self._pool.loads:
            raise RuntimeError(
                f"{type(self).__name__} was asked before update_weights(weights, version): there are no weights to sample from"
            )
        self._waiting.extend(self._slices.cut(requests))
        self._hand_out(self._pool)

    def results(self) -> list[Result]:
        """The results that come next from any worker. RuntimeError: an engine has raised, or more workers failed than may be replaced."""
        while self._pool is not None and (self._waiting or any(self._pool.loads)):
            self._hand_out(self._pool)
            if found := self._pool.results():
                return found
        return []

    def forget(self, episodes: Collection[int]) -> None:
        over = frozenset(episodes)
        self._slices.forget(over)
        for episode in over:
            self._homes.pop(episode, None)
        left = [Slice(part.number, [request for request in part.requests if request.episode not in over]) for part in self._waiting]
        self._waiting = deque(part for part in left if part.requests)
        if self._pool is not None:
            self._pool.forget(over)

    def statistics(self) -> dict[str, float]:
        """`replaced_workers`: those that died or hung."""
        before = self._counted
        self._counted = 0 if self._pool is None else len(self._pool.failures)
        return {"replaced_workers": float(self._counted - before)}

    def _hand_out(self, pool: EnginePool) -> None:
        """Give each worker up to `DEPTH` slices, in their order; those of one episode to one worker."""
        kept = deque[Slice]()
        for part in self._waiting:
            homes = [self._homes[request.episode] for request in part.requests if request.episode in self._homes]
            number = min(homes[:1] or range(self._number), key=pool.loads.__getitem__)
            if pool.loads[number] >= DEPTH:
                kept.append(part)
                continue
            self._homes.update({request.episode: number for request in part.requests if request.open})
            pool.ask(number, part.requests)
        self._waiting = kept

    def _begin_anew(self) -> None:
        self._slices.clear()
        self._homes.clear()
