"""The engine: requests and weights go to inference servers over HTTP, tokens and log-probs come back."""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, ClassVar, TypeVar

from annotated_types import Ge, Gt

from lightrl import ApiKey, PolicyWeights, Request, Result, RolloutEngine, SampledPolicy, Sampling
from lightrl_servers.colocation import Colocation
from lightrl_servers.dialect import Dialect
from lightrl_servers.fleet import Fleet
from lightrl_servers.own_server import OwnServer
from lightrl_servers.probes import warnings_of
from lightrl_servers.server import Server, checked_address
from lightrl_servers.under_way import EventLoop, UnderWay
from lightrl_servers.update_check import UpdateCheck
from lightrl_servers.weight_reload import WeightReload

T = TypeVar("T")
LOG = ".log"
"""The ending of the name of a log."""
READABLE = 0o755
"""Servers may belong to another user."""
log = logging.getLogger(__name__)
GRACE_S = 60.0
"""Seconds beside the time limits of requests after which results count as lost."""


def work_folder(parent: str) -> Path:
    """A new folder inside another one, named after the time."""
    above = Path(parent).expanduser().resolve()
    above.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=above))
    folder.chmod(READABLE)
    return folder


def clear(folder: Path) -> None:
    """Delete the weights in a work folder, and the folder itself if no log is left."""
    for weights in [path for path in folder.iterdir() if path.suffix != LOG]:
        shutil.rmtree(weights)
    if not list(folder.iterdir()):
        folder.rmdir()


class ServerEngine(RolloutEngine):
    """Continues contexts with inference servers, tokens in and tokens out, and keeps their weights those of the policy.

    A subclass says which kind of servers. Without addresses it starts one from the path when the first weights come. What a server does
    is found out when it is connected; where its log-probs mean something else than ours, the trainer computes its own.
    """

    exceptions = MappingProxyType(
        {
            "the random numbers of a request are its own": (
                "every request has its own seed, but kernels round by what else is in the batch, so that now and then a token differs"
            )
        }
    )
    dialect: ClassVar[Dialect]
    """The kind of servers."""
    reloads: ClassVar[Mapping[str, type[WeightReload]]]
    """The ways in which servers get weights, by the name that `weights` has."""

    def __init__(
        self,
        max_new_tokens: int = 256,
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int = 0,
        min_p: float = 0.0,
        stop: list[str] | None = None,
        seed: int = 0,
        addresses: list[str] | None = None,
        weights: str = "folder",
        folder: str | None = None,
        api_key_env: str | None = None,
        model: str | None = None,
        devices: str | None = None,
        serve: list[str] | None = None,
        concurrency: Annotated[int, Ge(1)] = 256,
        timeout_s: Annotated[float, Gt(0)] = 600.0,
        start_limit_s: Annotated[float, Gt(0)] = 900.0,
        retries: Annotated[int, Ge(0)] = 3,
        tolerance: float | None = None,
        trust_serve: bool = False,
        colocate: bool = False,
    ) -> None:
        """
        Args:
            max_new_tokens: limit on the tokens of a completion, EOS included.
            temperature: divides the logits; 0 takes the likeliest token.
            top_p: keep the likeliest tokens whose probabilities add up to this; in (0, 1].
            top_k: keep this many of the likeliest tokens; 0 keeps all.
            min_p: keep tokens at least this likely relative to the likeliest; in [0, 1).
            stop: a completion ends as soon as its text contains one of these.
            seed: of the random numbers.
            addresses: of running servers, such as http://10.0.0.7:8000; null: start one on this machine.
            weights: how servers get them: `folder` for all of them, `adapters` for the adapters of a LoRA policy alone.
            folder: for weights and logs, which running servers must see under the same path; null: `runs/` and the name of the program.
            api_key_env: name of the environment variable that holds the servers' key; null: they want none.
            model: folder or hub id that a server of its own begins with; null: the policy, once its first weights come.
            devices: `CUDA_VISIBLE_DEVICES` of a server of its own; null: those of this process.
            serve: further words for a server of its own, such as [--tensor-parallel-size, "2"].
            concurrency: requests under way at a time at each server.
            timeout_s: seconds that an answer or an update may take.
            start_limit_s: seconds that a server may take to start, and to give its first answer.
            retries: further attempts at a request that got no answer.
            tolerance: largest mean difference of log-probs to the trainer's after an update, in nats; null: what rounding explains in the
                dtype that the trainer computes in.
            trust_serve: serve may have options beside those that are known to execute no code.
            colocate: the server is on the trainer's own device, takes what the policy leaves there, and sleeps while the policy learns.

        Raises:
            ValueError: an argument cannot be used, or there is no key.
        """
        if weights not in self.reloads:
            raise ValueError(f"weights must be one of {', '.join(self.reloads)}, got {weights!r}")
        if addresses is not None and (not addresses or len(set(addresses)) < len(addresses)):
            raise ValueError(f"addresses must name one server or more, each once, or be null; got {addresses}")
        own = {"model": model, "devices": devices, "serve": serve, "colocate": colocate or None}
        if addresses is not None and (given := [name for name, value in own.items() if value is not None]):
            raise ValueError(f"{' and '.join(given)} are for a server of the engine's own, and addresses names running ones: leave one out")
        if colocate and devices is not None:
            raise ValueError("devices are those of a server that has its own, and colocate has it share the trainer's: leave one out")
        if addresses is None and weights == "adapters" and model is None:
            raise ValueError("a server of its own needs model, the base of the adapters: a folder or hub id; or give addresses")
        program = self.dialect.program
        if addresses is None and api_key_env is not None and program.key_variable is None:
            raise ValueError(
                f"api_key_env is for running servers: {program.title} takes a key from its command line alone, where every user of this "
                "machine could read it. Leave it out; a server of its own listens at this machine alone"
            )
        program.check_words(serve or (), trust_serve)

        self.sampling = Sampling(max_new_tokens, temperature, top_p, top_k, min_p, tuple(stop or ()))
        self.seed, self.weights, self.model, self.devices = seed, weights, model, devices
        self.folder = folder or f"runs/{program.name}"
        self.addresses = None if addresses is None else [checked_address(address) for address in addresses]
        self.serve, self.concurrency, self.timeout_s, self.start_limit_s = list(serve or ()), concurrency, timeout_s, start_limit_s
        self.retries, self.tolerance, self.rests = retries, tolerance, colocate
        self._key = ApiKey(api_key_env)
        self._loop: EventLoop | None = None
        self._under_way: UnderWay | None = None
        self._fleet: Fleet | None = None
        self._own: OwnServer | None = None
        self._colocation: Colocation | None = None
        self._check: UpdateCheck | None = None
        self._place: Path | None = None
        self._updated: tuple[SampledPolicy, int] | None = None

    def start(self) -> None:
        """Connect to the servers that addresses names, and find out what they do."""
        if self._loop is None:
            self._loop, self._check = EventLoop(), UpdateCheck(self.tolerance, self.dialect.words)
            self._under_way = UnderWay(self._loop, self.timeout_s * (1 + self.retries) + GRACE_S)
            self._place = work_folder(self.folder)
            if self.addresses is not None:
                self._connect(self._loop, self._place, self.addresses)

    def close(self) -> None:
        """Drop requests under way and connections, and end a server of its own."""
        loop, fleet, own, place = self._loop, self._fleet, self._own, self._place
        self._loop = self._under_way = self._fleet = self._own = self._colocation = self._check = self._place = self._updated = None
        try:
            if loop is not None:
                if fleet is not None:
                    loop.run(fleet.close())
                loop.close()
        finally:
            if own is not None:
                own.close()
        if place is not None:
            clear(place)

    def update_weights(self, weights: PolicyWeights, version: int) -> None:
        """Give every server the policy's present weights, unless it has them, and compare its log-probs with the trainer's.

        Raises:
            RuntimeError: requests are under way, or a server has not taken the weights.
            ValueError: the weights do not fit a server.
        """
        if self._loop is None or self._check is None or self._place is None:
            raise RuntimeError(f"{type(self).__name__}.update_weights was called before start(): there are no connections")
        if self._under_way:
            raise RuntimeError(f"{type(self).__name__}.update_weights was called while requests are under way")
        if self._updated is not None and self._updated[0] is weights.policy and self._updated[1] == version:
            return
        self._updated, run = None, self._loop.run
        fleet = self._fleet or self._connect(self._loop, self._place, [self._start_server(weights, self._place)])
        fleet.vocabulary = weights.policy.model.config.get_text_config().vocab_size
        folder = fleet.reload.write(weights, version)
        if self._colocation is not None:
            self._colocation.make_room()
        weights.on_first_rank(lambda: self._told(lambda: run(fleet.update(folder, version))))
        weights.on_first_rank(lambda: fleet.reload.remove_former(folder))
        decode = weights.policy.decode
        rows = weights.on_first_rank(lambda: run(fleet.rows(self.sampling, version, decode)))
        self._check.compare(rows, weights, version)
        self._updated = weights.policy, version

    def submit(self, requests: Sequence[Request]) -> None:
        """Send requests; those of one context go to one server, and those of an episode to the server that it began at.

        Raises:
            RuntimeError: `update_weights` was never called.
            ValueError: a request is longer than a row of a server.
        """
        fleet, under_way = self._fleet, self._under_way
        if fleet is None or under_way is None or self._updated is None:
            raise RuntimeError(
                f"{type(self).__name__} was asked before update_weights(weights, version): there are no weights to sample from"
            )
        policy, version = self._updated
        for request in requests:
            fleet.check_room(request)
        for request, server in zip(requests, fleet.place(requests), strict=True):
            under_way.begin(request, fleet.answer(server, request, version, policy.decode))

    def results(self) -> list[Result]:
        """The results that have come, at least one if a request is under way.

        Raises:
            RuntimeError: a server gave none, or one that is no completion.
        """
        under_way = self._under_way
        return [] if under_way is None else self._told(under_way.results)

    def rest(self) -> None:
        """Have a server sleep that shares the trainer's device; nothing otherwise, or while it sleeps.

        Raises:
            RuntimeError: requests are under way, the server does not answer, or its memory shows that it does not sleep.
        """
        loop, fleet, colocation = self._loop, self._fleet, self._colocation
        if loop is None or fleet is None or colocation is None or self._updated is None:
            return
        if self._under_way:
            raise RuntimeError(f"{type(self).__name__}.rest was called while requests are under way")
        self._updated = None
        self._told(lambda: loop.run(colocation.sleep(fleet.servers[0])))

    def forget(self, episodes: Collection[int]) -> None:
        """Drop requests of these episodes; a server stops working at them."""
        over = frozenset(episodes)
        if self._under_way is not None:
            self._under_way.forget(over)
        if self._fleet is not None:
            self._fleet.forget(over)

    def _told(self, action: Callable[[], T]) -> T:
        """The value of an action; if it fails and the server of its own has ended, the error has the end of its log."""
        try:
            return action()
        except RuntimeError as error:
            ended = "" if self._own is None else self._own.complaint()
            raise RuntimeError(f"{error}\n{ended}".rstrip()) from None

    def _connect(self, loop: EventLoop, place: Path, addresses: Sequence[str]) -> Fleet:
        servers = [Server(address, self._key, self.timeout_s, self.retries, self.concurrency) for address in addresses]
        fleet = self._fleet = Fleet(self.dialect, servers, self.reloads[self.weights](place, self.timeout_s))
        loop.run(fleet.connect(self.start_limit_s))
        self.comparable_logprobs = all(meaning.is_ours(self.sampling) for meaning in fleet.meaning.values())
        self.probed_at = type(self).probed_at if all(meaning.tempered for meaning in fleet.meaning.values()) else 1.0
        for sentence in warnings_of(fleet.meaning, self.sampling, self._key.variable is not None, self.dialect.words):
            log.warning(sentence)
        return fleet

    def _start_server(self, weights: PolicyWeights, place: Path) -> str:
        """Start a server on the first rank, and give its address on every one."""
        first = place / "first"
        if self.model is None:
            weights.save(first)
        dtype, program = str(weights.compute_dtype).removeprefix("torch."), self.dialect.program
        reload = self.reloads[self.weights]
        words = ["--dtype", dtype, *self.dialect.start_words(self.sampling), *reload.serve, *self.serve]
        colocation = self._colocation = Colocation(self.dialect, weights, reload.adapters is not None) if self.rests else None
        if colocation is not None:
            words += colocation.words(self.serve)
        devices = self.devices if colocation is None else colocation.visible

        def start() -> str:
            self._own = OwnServer(program, place / f"{program.name}{LOG}", self._key, devices)
            address = self._own.start(self.model or str(first), words, self.start_limit_s)
            if colocation is not None:
                colocation.started(self._own)
            return address

        address: str = weights.on_first_rank(start)
        return address
