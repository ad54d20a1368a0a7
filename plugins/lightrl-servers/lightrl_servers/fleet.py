"""The servers of a run: connected, tried, updated, and asked; requests that share a context meet at one of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from lightrl import Request, Result, Sampling
from lightrl_servers.completion import Decode, result_of
from lightrl_servers.dialect import Dialect
from lightrl_servers.probes import Meaning, find_meaning, probe, probe_context
from lightrl_servers.server import Server, ServerError
from lightrl_servers.weight_reload import WeightReload

log = logging.getLogger(__name__)

LEAST_POSITIONS = 48
"""Tokens of a row, of which those that an update is checked with take 40."""
ROW_TOKENS = 32
"""Tokens of each row after an update: the mean of fewer is too uncertain in bfloat16."""
SAMPLED = 1001
"""Seed of the sampled row after an update."""


class Fleet:
    """Servers with the same weights, over which requests are spread."""

    def __init__(self, dialect: Dialect, servers: Sequence[Server], reload: WeightReload) -> None:
        self.servers, self.reload, self._dialect = list(servers), reload, dialect
        self.meaning: dict[str, Meaning] = {}
        self.vocabulary: int | None = None
        """Of the policy, once its weights have come."""
        self._placed = 0
        self._of_episode: dict[int, Server] = {}

    async def connect(self, limit_s: float) -> None:
        """Connect to every server, wait `limit_s` for its first answer and try it; a ServerError if it lacks a route or ignores a field."""
        await asyncio.gather(*(self._connect(server, limit_s) for server in self.servers))

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(server.close() for server in self.servers))

    async def update(self, folder: Path, version: int) -> None:
        """Give every server the weights of this version, from the folder of `WeightReload.write`; one that sleeps wakes for them."""
        await asyncio.gather(*(self._update(server, folder, version) for server in self.servers))

    async def _update(self, server: Server, folder: Path, version: int) -> None:
        if server.asleep:
            # keys and values come last: while both weights are read, the device has room for them
            await self._dialect.wake(server, "weights")
        await self.reload.update(server, folder, version)
        if server.asleep:
            await self._dialect.wake(server, "kv_cache")
            server.asleep = False

    async def rows(self, sampling: Sampling, version: int, decode: Decode) -> list[dict[str, Any]]:
        """Fields of `Row` for each server: likeliest tokens, and sampled ones if their log-probs are ours."""
        found = []
        for server in self.servers:
            ids = probe_context(server.positions)[:-ROW_TOKENS]
            wanted = [probe(0, ids, Sampling(temperature=0.0), ROW_TOKENS)]
            if self.meaning[server.address].is_ours(sampling) and sampling.temperature > 0:
                drawn = Sampling(temperature=sampling.temperature, top_p=sampling.top_p, top_k=sampling.top_k, min_p=sampling.min_p)
                wanted.append(probe(SAMPLED, ids, drawn, ROW_TOKENS))
            for request in wanted:
                result = await self.answer(server, request, version, decode)
                warmth = request.sampling.temperature
                fields = {"address": server.address, "likeliest": warmth == 0, "temperature": warmth or 1.0, "context": ids}
                found.append({**fields, "tokens": result.tokens, "logprobs": result.logprobs})
        return found

    async def answer(self, server: Server, request: Request, version: int | None, decode: Decode, limit_s: float | None = None) -> Result:
        """The result of a request with weights of this version (None: none were given yet), or a ServerError."""
        adapters = None if version is None else self.reload.adapters
        try:
            completion = await self._dialect.complete(server, request, adapters, limit_s)
            result = result_of(completion, request, version, decode, self._dialect.words)
            if self.vocabulary is not None and max(result.tokens) >= self.vocabulary:
                raise ServerError(f"it sampled token {max(result.tokens)}, and the policy has {self.vocabulary}")
        except ServerError as error:
            raise server.named(error, f"request {request.id}: ") from None
        return result

    def place(self, requests: Sequence[Request]) -> list[Server]:
        """The server of each request: that of its episode, or the next one for each context that is new; neighbours may share one."""
        placed, context, chosen = [], None, self.servers[0]
        for request in requests:
            if request.episode in self._of_episode:
                placed.append(self._of_episode[request.episode])
                continue
            if request.context is not context:
                context, chosen = request.context, self.servers[self._placed % len(self.servers)]
                self._placed += 1
            placed.append(chosen)
            if request.open:
                self._of_episode[request.episode] = chosen
        return placed

    def forget(self, episodes: Collection[int]) -> None:
        """Forget where episodes were."""
        for episode in episodes:
            self._of_episode.pop(episode, None)

    def check_room(self, request: Request) -> None:
        """Refuse, with a ValueError, a request that a server would cut short in silence."""
        least = min(self.servers, key=lambda server: server.positions)
        needed = len(request.context) + request.limit
        if needed > least.positions:
            raise ValueError(
                f"request {request.id} has {len(request.context)} tokens and may get {request.limit} more, and {least.address} takes rows "
                f"of {least.positions}, beyond which it cuts in silence: raise its {self._dialect.words.positions}, or lower "
                "model.engine.max_new_tokens"
            )

    async def _connect(self, server: Server, limit_s: float) -> None:
        await server.open()
        words = self._dialect.words
        try:
            await self._dialect.describe(server)
        except ServerError as error:
            raise server.named(error) from None
        if server.positions < LEAST_POSITIONS:
            few = f"it takes rows of {server.positions} tokens, expected {LEAST_POSITIONS} or more: raise its {words.positions}"
            raise ServerError(server.told("", few))
        ids = probe_context(server.positions)
        try:
            await self._dialect.complete(server, probe(0, ids, Sampling(temperature=0.0)), None, limit_s)
        except ServerError as error:
            if error.status == 404:
                raise ServerError(f"{error}\n{words.no_route}", 404) from None
            raise server.named(error) from None

        async def ask(requests: Sequence[Request]) -> list[Result]:
            return list(await asyncio.gather(*(self.answer(server, request, None, str) for request in requests)))

        try:
            self.meaning[server.address] = await find_meaning(ask, ids, words)
        except ServerError as error:
            raise server.named(error) from None
        log.info(server.told("", f"it serves {server.model}; its log-probs are {self.meaning[server.address].told(words)}"))
