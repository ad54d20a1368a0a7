"""Trainer and server take turns on one device: the server sleeps while the policy learns, which its memory has to show."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch

from lightrl import PolicyWeights
from lightrl_servers.device_share import GB, GIVEN_BACK, give_back_cached, memory_in_use, room_beside
from lightrl_servers.dialect import Dialect
from lightrl_servers.own_server import OwnServer
from lightrl_servers.server import Server, ServerError


class Colocation:
    """The turns of a server of the run's own on the trainer's device."""

    def __init__(self, dialect: Dialect, weights: PolicyWeights, keep_weights: bool) -> None:
        """What a server drops with its weights comes with the next update; adapters need the base to be kept.

        Raises:
            ValueError: the device has no room for a server, or the run has several ranks.
        """
        if torch.distributed.is_initialized() and (ranks := torch.distributed.get_world_size()) > 1:
            raise ValueError(
                f"model.engine.colocate is for one rank, and this run has {ranks}: give the server devices of its own (devices)"
            )
        self.device = torch.device(weights.policy.model.device)
        give_back_cached(self.device)
        self.room = room_beside(weights, self.device)
        self.room.check()
        self._dialect, self._keep = dialect, keep_weights
        self._pid: int | None = None
        self._took = 0.0

    @property
    def visible(self) -> str | None:
        """`CUDA_VISIBLE_DEVICES` of the server: the trainer's own device."""
        if self.device.type == "cpu":
            return None
        index, seen = self.device.index or 0, os.environ.get("CUDA_VISIBLE_DEVICES")
        return str(index) if seen is None else seen.split(",")[index].strip()

    def words(self, given: Sequence[str]) -> list[str]:
        """Words for the server beside those of the config; a ValueError if these name a larger share than there is room."""
        # to list plugins imports engines, and Lightning takes seconds
        from lightning.pytorch.utilities import rank_zero_info

        words = self._dialect.share_words(self.room, given, self._keep)
        rank_zero_info(f"{self._dialect.program.title} shares the device with the policy: {self.room.told} ({' '.join(words)})")
        return words

    def started(self, own: OwnServer) -> None:
        """Look at what a server has taken."""
        self._pid = own.pid
        self._took = self._in_use() - (self.room.in_use if self.device.type != "cpu" else 0.0)

    async def sleep(self, server: Server) -> None:
        """Have a server sleep; a ServerError if it gives back too little of what it took."""
        awake = self._in_use()
        await self._dialect.sleep(server, self._keep)
        server.asleep = True
        freed = awake - self._in_use()
        if freed < GIVEN_BACK * self._took:
            little = (
                f"it sleeps and has given back {max(freed, 0.0) / GB:.2f} of the {self._took / GB:.2f} GB that it took when it started, "
                f"expected {GIVEN_BACK:.0%} or more: the policy would lack it. Its log says what it has freed"
            )
            raise ServerError(server.told("", little))

    def make_room(self) -> None:
        """Give back what the trainer does not use, before the server wakes."""
        give_back_cached(self.device)

    def _in_use(self) -> float:
        return memory_in_use(self.device, self._pid)
